"""A client of HTTP/1.1 that costs little, so that the server is measured and not its clients.

One request after another on one connection; answers with a length, or in chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

_MOST = 1 << 22


class Refused(RuntimeError):
    """A response other than 2xx."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Http1Connection:
    """A connection that stays open between requests, all of which have the same `headers`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Mapping[str, str] | None = None
    ) -> None:
        self._reader, self._writer = reader, writer
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())

    @classmethod
    async def open(cls, port: int, headers: Mapping[str, str] | None = None) -> Http1Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=_MOST), headers)

    async def request(
        self, path: str, body: bytes, content_type: str = "application/json", *, method: str = "POST"
    ) -> bytes:
        """The whole response."""
        return b"".join([part async for part in self.parts(path, body, content_type, method=method)])

    async def parts(
        self, path: str, body: bytes, content_type: str = "application/json", *, method: str = "POST"
    ) -> AsyncIterator[bytes]:
        """The response as it arrives. The body is sent meanwhile, so a server may respond early."""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\n{self._headers}"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b" 20" not in head[:12]:
            text = f"{head.decode()}{(await self._reader.read(1000)).decode(errors='replace')}"
            raise Refused(int(head.split()[1]), text)
        length = head.find(b"content-length:")
        if length >= 0:
            yield await self._reader.readexactly(int(head[length + 15 : head.index(b"\r\n", length)]))
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    def close(self) -> None:
        self._writer.close()
