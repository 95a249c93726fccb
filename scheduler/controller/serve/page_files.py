"""The page at ``/ui/``: files of this package, served from memory under a strict content security policy.

They hold no data of the cluster, and load nothing from elsewhere; what they show comes from the pages under ``/debug``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import web

FOLDER: Final = Path(__file__).parent / "web"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}


def page_routes() -> tuple[web.RouteDef, ...]:
    """The routes ``/ui/`` and its files; ``/ui`` redirects there. Reads the files at once."""
    files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES}
    routes = [web.get("/ui", _to_page)]
    for name, body in files.items():
        file = _File(body, _TYPES[Path(name).suffix])
        routes.append(web.get("/ui/" if name == "index.html" else f"/ui/{name}", file.answer))
    return tuple(routes)


async def _to_page(_request: web.Request) -> web.Response:
    # Relative, so that it also holds behind a proxy that adds to the path.
    return web.Response(status=308, headers={**HEADERS, "Location": "ui/"})


class _File:
    """Answers with one file, or with 304 to a client that has it."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self._body = body
        self._content_type = content_type
        self._tag = hashlib.sha256(body).hexdigest()[:32]

    async def answer(self, request: web.Request) -> web.Response:
        tags = request.if_none_match or ()
        if any(tag.value == self._tag for tag in tags):
            found = web.Response(status=304, headers=HEADERS)
        else:
            found = web.Response(
                body=self._body, content_type=self._content_type, charset="utf-8", headers=dict(HEADERS)
            )
        found.etag = self._tag
        return found
