"""A client of HTTP/2 in clear text: many requests at a time on one connection."""

from __future__ import annotations

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded

_MOST = 1 << 16


class Stream:
    """A connection; each `request` is a stream of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._h2 = H2Connection(H2Configuration(header_encoding=None))
        self._answers: dict[int, tuple[bytearray, asyncio.Future[bytes]]] = {}
        self._h2.initiate_connection()
        self._flush()
        self._task = asyncio.ensure_future(self._receive())

    @classmethod
    async def open(cls, port: int) -> Stream:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def request(self, path: str, body: bytes) -> bytes:
        number = self._h2.get_next_available_stream_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[number] = (bytearray(), answer)
        facts = {b":method": b"POST", b":path": path.encode(), b":scheme": b"http", b":authority": b"127.0.0.1"}
        self._h2.send_headers(number, list(facts.items()))
        self._h2.send_data(number, body, end_stream=True)
        self._flush()
        return await answer

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())

    async def _receive(self) -> None:
        while data := await self._reader.read(_MOST):
            for event in self._h2.receive_data(data):
                self._take(event)
            self._flush()
        for _, answer in self._answers.values():
            answer.set_exception(RuntimeError("the server has closed the connection"))

    def _take(self, event: Event) -> None:
        if isinstance(event, DataReceived):
            self._answers[event.stream_id][0].extend(event.data)
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            text, answer = self._answers.pop(event.stream_id)
            answer.set_result(bytes(text))
        elif isinstance(event, ResponseReceived) and dict(event.headers)[b":status"] != b"200":
            self._answers[event.stream_id][1].set_exception(RuntimeError(f"refused: {event.headers}"))
