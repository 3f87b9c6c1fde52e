"""Files of the console are read once, compressed once, and served unchanged."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headrace.serve.console.compressed_files import CompressedFiles

SCRIPT = b"let flowing = true;\n" * 500
PICTURE = bytes(range(256))
PACKED = {"accept_encoding": "gzip, br"}


@dataclass
class Answer:
    status: int
    headers: Headers
    sent: bytes

    @property
    def body(self) -> bytes:
        return gzip.decompress(self.sent) if self.headers.get("content-encoding") == "gzip" else self.sent


@dataclass
class Browser:
    app: Any

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        path, _, query = path.partition("?")
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in (PACKED | headers).items()]
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": given}
        told: list[Any] = []

        async def receive() -> Any:
            await asyncio.Event().wait()  # whoever asks stays there

        async def send(message: Any) -> None:
            told.append(message)

        asyncio.run(self.app(scope, receive, send))
        start, *parts = told
        return Answer(start["status"], Headers(raw=start["headers"]), b"".join(one.get("body", b"") for one in parts))


Browsers = Callable[..., Browser]


@pytest.fixture
def asked() -> list[str]:
    """What went on to the application behind."""
    return []


@pytest.fixture
def there(tmp_path: Path, asked: list[str]) -> Browsers:
    (tmp_path / "one.js").write_bytes(SCRIPT)
    (tmp_path / "two.js").write_bytes(SCRIPT)
    (tmp_path / "a.woff2").write_bytes(PICTURE)
    (tmp_path / "page.html").write_text("<p>" * 500)

    async def page(_: object) -> PlainTextResponse:
        return PlainTextResponse("a page")

    files = StaticFiles(directory=tmp_path)
    inner = Starlette(
        routes=[
            Mount("/ui/static", files),
            Mount("/ui/_nicegui/3.18.0/components", files),
            Mount("/ui/_nicegui/3.18.0/dynamic_resources", files),
            Route("/ui/topics", page),
        ]
    )

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await inner(scope, receive, send)

    return lambda **more: Browser(CompressedFiles(counted, **more))


@pytest.mark.parametrize("folder", ["static", "_nicegui/3.18.0/components"])
def test_a_file_is_served_compressed_and_cached(there: Browsers, asked: list[str], folder: str) -> None:
    browser = there()
    answers = [browser.ask(f"/ui/{folder}/one.js") for _ in range(3)]
    assert len(asked) == 1
    for answer in answers:
        assert answer.body == SCRIPT
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "accept-encoding"
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "max-age" in answer.headers["cache-control"]
        assert len(answer.sent) == int(answer.headers["content-length"]) < len(SCRIPT) / 10


def test_an_incompressible_file_is_served_uncompressed(there: Browsers, asked: list[str]) -> None:
    browser = there()
    answers = [browser.ask("/ui/static/a.woff2") for _ in range(2)]
    assert len(asked) == 1
    for answer in answers:
        assert answer.body == PICTURE
        assert "content-encoding" not in answer.headers
        assert answer.headers["content-length"] == str(len(PICTURE))


def test_a_client_without_compression_gets_the_plain_file(there: Browsers) -> None:
    browser = there()
    browser.ask("/ui/static/one.js")
    answer = browser.ask("/ui/static/one.js", accept_encoding="identity")
    assert answer.body == SCRIPT
    assert "content-encoding" not in answer.headers


def test_a_cached_file_is_answered_with_not_modified(there: Browsers) -> None:
    browser = there()
    etag = browser.ask("/ui/static/one.js").headers["etag"]
    answer = browser.ask("/ui/static/one.js", if_none_match=etag)
    assert (answer.status, answer.body) == (304, b"")


def test_a_range_request_gets_its_range(there: Browsers) -> None:
    browser = there()
    browser.ask("/ui/static/one.js")
    answer = browser.ask("/ui/static/one.js", range="bytes=4-10")
    assert (answer.status, answer.body) == (206, SCRIPT[4:11])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui/static/missing.js", 404),
        ("HEAD", "/ui/static/one.js", 200),
        ("POST", "/ui/static/one.js", 405),
        ("GET", "/ui/static/one.js?version=2", 200),
        ("GET", "/ui/static/page.html", 200),
        ("GET", "/ui/_nicegui/3.18.0/dynamic_resources/one.js", 200),
        ("GET", "/ui/topics", 200),
    ],
)
def test_dynamic_content_is_not_cached(there: Browsers, asked: list[str], method: str, path: str, status: int) -> None:
    browser = there()
    for _ in range(2):
        assert browser.ask(path, method).status == status
    assert len(asked) == 2


def test_the_cache_is_bounded(there: Browsers, asked: list[str]) -> None:
    browser = there(budget=3 * len(gzip.compress(SCRIPT)) // 2)  # for one
    for _ in range(2):
        for name in ("one", "two"):
            assert browser.ask(f"/ui/static/{name}.js").body == SCRIPT
    assert asked == ["/ui/static/one.js", "/ui/static/two.js", "/ui/static/two.js"]
