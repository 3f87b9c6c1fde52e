"""Cache of the console's static files, compressed: each is read once and compressed once, at the highest level.

A page needs twenty of them before it shows anything, and they change only with the installed version.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders

from headrace.serve.console.urls import PREFIX

MAX_CACHE_BYTES = 32 << 20
"""Maximum bytes of the cache; files that do not fit are served uncached."""
_FILES = re.compile(rf"{PREFIX}/(static|_nicegui/[^/]+/(static|components|esm|libraries|resources))/.*")
_OWN_ANSWER = ("if-none-match", "if-modified-since", "if-range", "range")


class CompressedFiles:
    """Middleware in front of the application that serves the files."""

    def __init__(self, app: Any, budget: int = MAX_CACHE_BYTES) -> None:
        self._app = app
        self._room = budget
        self._cache: dict[str, _File] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not _is_wanted(scope):
            await self._app(scope, receive, send)
            return
        file = self._cache.get(scope["path"])
        if file is None:
            file = _File()
            await self._app(_plainly(scope), receive, file.take)
            if file.is_cacheable:
                await run_in_threadpool(file.pack)
                self._keep(scope["path"], file)
        await file.send(send)

    def _keep(self, path: str, file: _File) -> None:
        if len(file.body) <= self._room and path not in self._cache:
            self._room -= len(file.body)
            self._cache[path] = file


def _is_wanted(scope: Any) -> bool:
    """Whether the request is for a whole file, by a client that accepts gzip."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
        return False
    headers = Headers(scope=scope)
    if "gzip" not in headers.get("accept-encoding", "") or any(name in headers for name in _OWN_ANSWER):
        return False
    return _FILES.fullmatch(scope["path"]) is not None


def _plainly(scope: Any) -> Any:
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
    return {**scope, "headers": headers}


@dataclass
class _File:
    """A response with a file."""

    status: int = 0
    headers: MutableHeaders = field(default_factory=MutableHeaders)
    body: bytes = b""

    async def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], MutableHeaders(raw=list(message["headers"]))
        else:
            self.body += message.get("body", b"")

    @property
    def is_cacheable(self) -> bool:
        """Whether it may be cached. HTML pages may not: each has its own nonce."""
        return self.status == 200 and not self.headers.get("content-type", "").startswith("text/html")

    def pack(self) -> None:
        self.headers.setdefault("cache-control", "public, max-age=3600")  # NiceGUI sets it for most files only
        self.headers.add_vary_header("accept-encoding")
        packed = gzip.compress(self.body, 9, mtime=0)
        if len(packed) < len(self.body):
            self.body = packed
            self.headers["content-encoding"] = "gzip"
            self.headers["content-length"] = str(len(packed))

    async def send(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers.raw)})
        await send({"type": "http.response.body", "body": self.body})
