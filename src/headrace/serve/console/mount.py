"""Mounts the console: NiceGUI under `/ui`, with a content security policy.

A script or a style sheet counts only if it is a file of this server or has the page's nonce. NiceGUI's template has
it, and so have the style sheets that scripts of the page create (`headrace.js`); a script in a record never runs.
NiceGUI compiles templates to functions in the browser, which requires `unsafe-eval`. Style attributes are allowed:
browsers set them while somebody types in the statement editor.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nicegui
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from headrace.serve.api.request_context import RequestContext
from headrace.serve.browser_sessions import LINK_PATH
from headrace.serve.console.compressed_files import CompressedFiles
from headrace.serve.console.login_link import open_link
from headrace.serve.console.page_context import SCOPE_KEY
from headrace.serve.console.poller import SnapshotPoller
from headrace.serve.console.routes import register_pages
from headrace.serve.console.urls import LOGIN_PATH, PREFIX, STATIC_PAGE_POLICY

STATIC = Path(__file__).parent / "static"
_HEAD = f"""
<link rel="stylesheet" href="{PREFIX}/static/headrace.css">
<script defer src="{PREFIX}/static/headrace.js"></script>
"""
_POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-eval' 'nonce-{nonce}'",
    "style-src": "'self' 'nonce-{nonce}'",
    "style-src-attr": "'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
_INLINE = re.compile(r"<(?P<tag>script|style)(?![^>]*\bsrc=)[^>]*>.*?</(?P=tag)>", re.DOTALL)
_OPTIONAL = re.compile(r"\{% if .*?\{% endif %\}", re.DOTALL)
_FILLED_IN = re.compile(r"\{[{%]")
_TAG = re.compile(rb"<(script|style)")
_EMPTY = b"<style></style>"  # where NiceGUI would put the styles of components


def _beginnings() -> tuple[bytes, ...]:
    """The inline scripts and styles of NiceGUI's page template: each up to its first placeholder, or to its end."""
    template = (Path(nicegui.__file__).parent / "templates" / "index.html").read_text()
    elements = _INLINE.finditer(_OPTIONAL.sub("", template))
    return tuple(_FILLED_IN.split(element[0])[0].encode() for element in elements)


_OWN = _beginnings()


class Console:
    """The console; the server's application includes its `routes` and `lifespan`."""

    def __init__(self, context: RequestContext) -> None:
        register_pages()
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
        pages = GZipMiddleware(
            ConsoleMiddleware(self._inner, context), compresslevel=1
        )  # fast, as the user waits for it
        self.routes: list[BaseRoute] = [
            Route("/", _begin, methods=["GET"]),
            Route(LOGIN_PATH, _login_page, methods=["GET"]),
            Route(LINK_PATH, _link_opener(context), methods=["GET"]),
            Mount(PREFIX, CompressedFiles(pages)),
        ]

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        async with self._inner.router.lifespan_context(self._inner):
            yield


async def _begin(_: Any) -> RedirectResponse:
    return RedirectResponse(f"{PREFIX}/")


def _link_opener(context: RequestContext) -> Callable[[Request], Awaitable[Response]]:
    async def opened(request: Request) -> Response:
        return await open_link(context, request)

    return opened


async def _login_page(_: Any) -> FileResponse:
    """The static log-in page, for unauthenticated users: it loads only files."""
    return FileResponse(STATIC / "log-in.html", headers={"content-security-policy": STATIC_PAGE_POLICY})


class ConsoleMiddleware:
    """Passes the server's context to the pages, and sets the security headers."""

    def __init__(self, app: Any, context: RequestContext) -> None:
        self._app = app
        self._context = context
        self._poller = SnapshotPoller(context)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[SCOPE_KEY] = self._context, self._poller
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        marking = _NonceInjector(send)
        await self._app(scope, receive, marking)


class _NonceInjector:
    """Forwards a response; the scripts and styles of an HTML page get a nonce, a new one for each response."""

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
        page = with_nonces(bytes(self._page), nonce)
        headers = MutableHeaders(raw=self._start["headers"])
        policy = "; ".join(f"{name} {value}" for name, value in _POLICY.items())
        headers["content-security-policy"] = policy.format(nonce=nonce)
        headers["content-length"] = str(len(page))
        await self._send(self._start)
        return {**message, "body": page}


def with_nonces(page: bytes, nonce: str) -> bytes:
    """The page with the nonce on its own scripts and styles. What occurs twice may be injected, and gets none."""
    mark = rf'<\1 nonce="{nonce}"'.encode()
    for own in _OWN:
        if page.count(own) == 1:
            page = page.replace(own, _TAG.sub(mark, own, count=1))
    return page.replace(_EMPTY, b"")
