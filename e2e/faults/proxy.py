"""The fault proxy as a program: HTTPS on the loopback, every request passed on to the API server, or not.

``python -m e2e.faults.proxy PORT KUBECONFIG CERTIFICATE KEY SEED MAX_SILENCE_SECONDS``. It begins without faults:
``PUT /faults`` with ``{"is_on": true}`` turns them on, ``GET /faults`` is the report.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from e2e.connection import Connection, from_kubeconfig
from e2e.faults.plan import ANSWERS, Fault, Plan, Treatment, Watch, kind_of

FLUSH_SECONDS = 0.5
"""A line that is held back comes by then, whether others follow or not."""
LOOK_SECONDS = 1.0
"""How often a quiet watch is looked at: is its client still there, is its time over?"""
HALF_PATIENCE_SECONDS = 5.0
"""How long the last watch line, the one to be cut in half, is waited for."""
MAX_BODY_BYTES = 2**26
_NOT_PASSED_ON = {"host", "connection", "content-length", "transfer-encoding", "date", "server"}


class Proxy:
    """Passes requests on to one API server, each as the plan says while it is on."""

    def __init__(self, upstream: Connection, plan: Plan) -> None:
        self._upstream = upstream
        self._plan = plan
        self._is_on = False
        self._is_off = asyncio.Event()
        self._is_off.set()
        self._faulty_writes: Counter[str] = Counter()
        self._lists_passed: Counter[str] = Counter()

    async def serve(self, port: int, tls: ssl.SSLContext) -> None:
        """Until killed."""
        connector = aiohttp.TCPConnector(ssl=self._upstream.tls or True, limit=0)
        # Compression is asked for by the scheduler or not at all.
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as self._session:
            application = web.Application(client_max_size=MAX_BODY_BYTES)
            application.router.add_get("/faults", self._report)
            application.router.add_put("/faults", self._switch)
            application.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
            await asyncio.Event().wait()

    # --- control -----------------------------------------------------------------------------------------------------

    async def _report(self, _request: web.Request) -> web.Response:
        fired = {kind: counts for kind, counts in sorted(self._plan.fired.items()) if counts}
        return web.json_response({"fired": fired, "writes": self._faulty_writes, "lists": self._lists_passed})

    async def _switch(self, request: web.Request) -> web.Response:
        self._is_on = (await request.json())["is_on"]
        (self._is_off.clear if self._is_on else self._is_off.set)()
        self._lists_passed.clear()
        return web.json_response({})

    async def _stand_still(self, seconds: float) -> None:
        """Shorter where the faults are turned off meanwhile."""
        try:
            await asyncio.wait_for(self._is_off.wait(), seconds)
        except TimeoutError:
            return

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        kind = kind_of(request.path)
        try:
            if request.query.get("watch") in ("1", "true"):
                return await self._watch(request, kind)
            return await self._request(request, kind)
        except aiohttp.ClientError as error:
            return _status(502, "BadGateway", f"the API server does not answer: {error}")

    async def _request(self, request: web.Request, kind: str) -> web.StreamResponse:
        is_write = request.method not in ("GET", "HEAD")
        treatment = self._plan.request(kind, is_write=is_write) if self._is_on else Treatment()
        fault = treatment.fault
        if fault and is_write:
            self._faulty_writes[f"{request.method} {request.path}"] += 1
        if fault in ANSWERS:
            return _answer(treatment)
        if fault in (Fault.SILENCE, Fault.LATE):
            await self._stand_still(treatment.seconds)
            if fault is Fault.SILENCE:
                return _cut(request)
        body = await request.read()
        async with self._session.request(
            request.method, self._target(request), data=body or None, headers=_passed_on(request.headers)
        ) as answer:
            content = await answer.read()
        if fault is Fault.LOST_ANSWER:
            await self._stand_still(treatment.seconds)
            return _cut(request)
        headers = _passed_on(answer.headers)
        if fault is Fault.HALF:
            half = web.StreamResponse(status=answer.status, headers=headers)
            half.content_length = len(content)
            await half.prepare(request)
            await half.write(content[: len(content) // 2])
            return _cut(request, half)
        if "limit" in request.query and answer.status == 200:
            self._lists_passed[kind] += 1
        return web.Response(status=answer.status, body=content, headers=headers)

    def _target(self, request: web.Request) -> URL:
        return URL(self._upstream.url + request.raw_path, encoded=True)

    # --- watches -----------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        plan = self._plan.watch(kind) if self._is_on else None
        if plan is not None and plan.opening.fault:
            return _answer(plan.opening)
        no_limit = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._session.get(
            self._target(request), headers=_passed_on(request.headers), timeout=no_limit
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
            await response.prepare(request)
            try:
                if plan is None or answer.status != 200:
                    return await self._pass_on(request, response, answer.content)
                return await self._spoil(request, response, answer.content, plan, kind)
            except ConnectionError:
                return _cut(request, response)

    async def _pass_on(
        self, request: web.Request, response: web.StreamResponse, content: aiohttp.StreamReader
    ) -> web.StreamResponse:
        """As it comes, until its end, or until the faults begin."""
        while not _is_left(request) and not self._is_on:
            chunk = await _read(content, LOOK_SECONDS)
            if chunk == b"":
                await response.write_eof()
                return response
            if chunk:
                await response.write(chunk)
        # Perhaps in the middle of a line, which is one of the faults.
        return _cut(request, response)

    async def _spoil(
        self, request: web.Request, response: web.StreamResponse, content: aiohttp.StreamReader, plan: Watch, kind: str
    ) -> web.StreamResponse:
        lines, buffer = plan.lines, b""
        over = time.monotonic() + plan.life_seconds
        while not _is_left(request):
            chunk = await _read(content, FLUSH_SECONDS if lines.holds_any else LOOK_SECONDS)
            if chunk == b"":
                await response.write(b"".join(lines.rest()))
                await response.write_eof()
                return response
            *begun, buffer = (buffer + (chunk or b"")).split(b"\n")
            whole = [line + b"\n" for line in begun]
            if not self._is_on:
                await response.write(b"".join([*lines.rest(), *whole]))
                return _cut(request, response)
            late = time.monotonic() - over
            if late > 0 and (plan.end is not Fault.HALF or whole or late > HALF_PATIENCE_SECONDS):
                await response.write(b"".join(lines.rest()))
                return await self._end(request, response, plan, whole, kind)
            passed = lines.rest() if chunk is None else [one for line in whole for one in lines.take(line)]
            if passed:
                await self._stand_still(lines.delay_seconds())
                # In one piece: of lines that have changed places, the later ones never arrive without the earlier.
                await response.write(b"".join(passed))
        return _cut(request, response)

    async def _end(
        self, request: web.Request, response: web.StreamResponse, plan: Watch, whole: list[bytes], kind: str
    ) -> web.StreamResponse:
        """`whole`: lines that have come and of which none, or half of the first, is passed on."""
        end = Fault.CUT if plan.end is Fault.HALF and not whole else plan.end
        self._plan.fired[kind][end] += 1
        if end is Fault.HALF:
            await response.write(whole[0][: len(whole[0]) // 2])
        elif end is Fault.SILENCE:
            await self._stand_still(plan.silence_seconds)
        elif end is Fault.GONE:
            error = _status_body(410, ANSWERS[Fault.GONE], "too old resource version: fault")
            await response.write(json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
        return _cut(request, response)


async def _read(content: aiohttp.StreamReader, seconds: float) -> bytes | None:
    """What has come, b"" at the end, None where nothing comes in time."""
    try:
        return await asyncio.wait_for(content.readany(), seconds)
    except TimeoutError:
        return None


def _is_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """End the connection; what was written before still leaves."""
    if request.transport is not None:
        request.transport.close()
    return response or web.Response()


def _answer(treatment: Treatment) -> web.Response:
    assert treatment.fault is not None
    answer = _status(int(treatment.fault), ANSWERS[treatment.fault], "fault")
    if treatment.fault is Fault.TOO_MANY_REQUESTS:
        answer.headers["Retry-After"] = str(treatment.retry_after)
    return answer


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response(_status_body(code, reason, message), status=code)


def _status_body(code: int, reason: str, message: str) -> dict[str, object]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
    return {**status, "code": code, "reason": reason, "message": message}


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}


async def main(port: str, kubeconfig: str, certificate: str, key: str, seed: str, max_silence_seconds: str) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    plan = Plan(int(seed), float(max_silence_seconds))
    await Proxy(from_kubeconfig(Path(kubeconfig)), plan).serve(int(port), tls)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
