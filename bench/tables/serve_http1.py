"""A client of HTTP/1.1 that costs little, so that the server is measured and not its clients.

One request after another on one connection; answers with a length, or in chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

_MOST = 1 << 22


class Http1Connection:
    """A connection that stays open between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Http1Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=_MOST))

    async def request(self, path: str, body: bytes, content_type: str = "application/json") -> bytes:
        """The whole response."""
        return b"".join([part async for part in self.parts(path, body, content_type)])

    async def parts(self, path: str, body: bytes, content_type: str = "application/json") -> AsyncIterator[bytes]:
        """The response as it arrives. The body is sent meanwhile, so a server may respond early."""
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b" 20" not in head[:12]:
            raise RuntimeError(f"{head.decode()}{(await self._reader.read(1000)).decode(errors='replace')}")
        length = head.find(b"content-length:")
        if length >= 0:
            yield await self._reader.readexactly(int(head[length + 15 : head.index(b"\r\n", length)]))
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    def close(self) -> None:
        self._writer.close()
