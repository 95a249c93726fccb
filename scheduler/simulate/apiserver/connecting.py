"""Port-forwards to pods, and tokens of service accounts: what a client needs to reach a pod's own server.

A pod of the embedded cluster is a process somewhere on the loopback, or nothing at all: who starts one says where.
"""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

PORT_FORWARD: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward")
TOKEN: Final = re.compile(r"/api/v1/namespaces/([^/]+)/serviceaccounts/([^/]+)/token")
PROTOCOL: Final = "v4.channel.k8s.io"
_CHUNK_BYTES: Final = 32 * 1024


async def forward(request: web.BaseRequest, port: int | None) -> web.WebSocketResponse:
    """Copies bytes between the WebSocket's channel 0 and a port of the loopback; None: nothing listens there."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    named = int(request.query.get("ports", "0")).to_bytes(2, "little")
    for channel in (b"\x00", b"\x01"):
        await socket.send_bytes(channel + named)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port or 1)
    except OSError as error:
        await socket.send_bytes(b"\x01" + f"error forwarding port: {error}".encode())
        await socket.close()
        return socket
    answering = asyncio.create_task(_answers(reader, socket))
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\x00":
                writer.write(message.data[1:])
                await writer.drain()
    finally:
        answering.cancel()
        writer.close()
    return socket


async def _answers(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while part := await reader.read(_CHUNK_BYTES):
        await socket.send_bytes(b"\x00" + part)
    await socket.close()


def token_request(namespace: str, name: str, body: bytes) -> dict[str, Any]:
    """A TokenRequest with its token: an unsigned JWT."""
    asked = msgspec.json.decode(body) if body else {}
    audiences = (asked.get("spec") or {}).get("audiences") or []
    claims = {"aud": audiences, "sub": f"system:serviceaccount:{namespace}:{name}"}
    parts: tuple[dict[str, Any], ...] = ({"alg": "none"}, claims, {})
    token = ".".join(base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in parts)
    return {**asked, "status": {"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"}}


def claims_of(token: str) -> dict[str, Any] | None:
    """The claims of such a token; None for any other token."""
    try:
        text = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (IndexError, ValueError):
        return None
    return claims if isinstance(claims, dict) and "sub" in claims else None
