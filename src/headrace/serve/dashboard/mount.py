"""The dashboard as a part of the server: NiceGUI under `/ui`, with the rules that a browser is to keep.

Scripts run only if they are files of this server or bear the page's own mark, which only those get that NiceGUI has in
its template; so what stands in a record is never one. NiceGUI makes templates into functions in the browser, hence
`unsafe-eval`; and it sets styles.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nicegui
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, RedirectResponse
from starlette.routing import BaseRoute, Mount, Route

from headrace.serve.api.site import Site
from headrace.serve.dashboard.desk import SCOPE
from headrace.serve.dashboard.door import LOG_IN, PREFIX
from headrace.serve.dashboard.packed import Packed
from headrace.serve.dashboard.pages import registered
from headrace.serve.dashboard.pulse import Pulse

STATIC = Path(__file__).parent / "static"
_HEAD = f"""
<link rel="stylesheet" href="{PREFIX}/static/headrace.css">
<script defer src="{PREFIX}/static/headrace.js"></script>
"""
_POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-eval' 'nonce-{nonce}'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
_INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>.*?</script>", re.DOTALL)
_OPTIONAL = re.compile(r"\{% if .*?\{% endif %\}", re.DOTALL)
_FILLED_IN = re.compile(r"\{[{%]")


def _beginnings() -> tuple[bytes, ...]:
    """Of the scripts that stand in every page of NiceGUI: each as far as nothing is filled in, or to its end."""
    template = (Path(nicegui.__file__).parent / "templates" / "index.html").read_text()
    scripts = _INLINE.findall(_OPTIONAL.sub("", template))
    return tuple(_FILLED_IN.split(script)[0].encode() for script in scripts)


_OWN = _beginnings()
_DOOR = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


class Dashboard:
    """`routes` and `lifespan` are those that the server's application takes over."""

    def __init__(self, site: Site) -> None:
        registered()
        self._inner = FastAPI(openapi_url=None)
        ui.run_with(
            self._inner,
            title="headrace",
            favicon=STATIC / "headrace.svg",
            dark=None,
            language="en-US",
            binding_refresh_interval=None,
            reconnect_timeout=5.0,
            tailwind=False,
            gzip_middleware_factory=None,
            show_welcome_message=False,
        )
        nicegui_app.colors(primary="#0b6e75", positive="#18703a", dark="#17242a", dark_page="#0f181b")
        nicegui_app.add_static_files("/static", STATIC)
        ui.add_head_html(_HEAD, shared=True)
        pages = GZipMiddleware(Guarded(self._inner, site), compresslevel=1)  # whoever waits, waits for this
        self.routes: list[BaseRoute] = [
            Route("/", _begin, methods=["GET"]),
            Route(LOG_IN, _door, methods=["GET"]),
            Mount(PREFIX, Packed(pages)),
        ]

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        async with self._inner.router.lifespan_context(self._inner):
            yield


async def _begin(_: Any) -> RedirectResponse:
    return RedirectResponse(f"{PREFIX}/")


async def _door(_: Any) -> FileResponse:
    """A page by itself, for who is not known yet: all it loads are files."""
    return FileResponse(STATIC / "log-in.html", headers={"content-security-policy": _DOOR})


class Guarded:
    """Tells pages which server they are of, and browsers what they may do."""

    def __init__(self, app: Any, site: Site) -> None:
        self._app = app
        self._site = site
        self._pulse = Pulse(site)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[SCOPE] = self._site, self._pulse
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        marking = _Marking(send)
        await self._app(scope, receive, marking)


class _Marking:
    """Sends an answer on; scripts of a page get its mark, which is another one each time."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._start: Any = None
        self._page = bytearray()

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            headers["x-content-type-options"] = "nosniff"
            headers["referrer-policy"] = "same-origin"
            if headers.get("content-type", "").startswith("text/html"):
                self._start = message
                return
        elif self._start is not None:
            self._page += message.get("body", b"")
            if message.get("more_body"):
                return
            message = await self._marked(message)
        await self._send(message)

    async def _marked(self, message: Any) -> Any:
        nonce = secrets.token_urlsafe(16)
        page = marked(bytes(self._page), nonce)
        headers = MutableHeaders(raw=self._start["headers"])
        policy = "; ".join(f"{name} {value}" for name, value in _POLICY.items())
        headers["content-security-policy"] = policy.format(nonce=nonce)
        headers["content-length"] = str(len(page))
        await self._send(self._start)
        return {**message, "body": page}


def marked(page: bytes, nonce: str) -> bytes:
    """The page with the mark on its own scripts. One that is there twice is not ours alone, and gets none."""
    mark = f'<script nonce="{nonce}"'.encode()
    for own in _OWN:
        if page.count(own) == 1:
            page = page.replace(own, mark + own.removeprefix(b"<script"))
    return page
