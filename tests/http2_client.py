"""A client of HTTP/2 over a socket, for tests: polite requests, and raw frames."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings

_FRAME_HEAD, _GOAWAY = 9, 7
END_HEADERS, END_STREAM = 0x4, 0x1


@dataclass
class Response:
    """What has come of a response."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    data: bytes = b""
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers.get(b":status", b"0"))

    @property
    def done(self) -> bool:
        return self.ended or self.reset is not None


class Http2Client:
    """One connection. `window` is how much the client takes of each response before it acknowledges."""

    def __init__(self, host: str, port: int, *, window: int = 65_535, timeout: float = 20.0) -> None:
        self.wire = socket.create_connection((host, port), timeout=timeout)
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.h2.local_settings = Settings(client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.h2.initiate_connection()
        self.responses: dict[int, Response] = {}
        self.goaway: int | None = None
        self.closed = False
        self.acknowledges = True
        self.flush()

    def __enter__(self) -> Http2Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    # -- requests ---------------------------------------------------------------------------------------------------

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        end: bool = True,
    ) -> int:
        """Send the head of a request; the number of its stream."""
        stream = self.h2.get_next_available_stream_id()
        facts = {":method": method, ":path": path, ":scheme": "http", ":authority": "localhost", **(headers or {})}
        self.responses[stream] = Response()
        self.h2.send_headers(stream, list(facts.items()), end_stream=end)
        self.flush()
        return stream

    def upload(self, stream: int, body: bytes) -> None:
        """Send a body as far and as fast as flow control allows, and end it."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if room:
                self.h2.send_data(stream, body[:room], end_stream=room == len(body))
                body = body[room:]
                self.flush()
            else:
                self.read()

    def get(self, path: str, **options: str) -> Response:
        return self.response(self.request(path, **options))  # type: ignore[arg-type]

    def response(self, stream: int) -> Response:
        """Wait for a whole response, or the end of the connection."""
        found = self.responses[stream]
        self.until(lambda: found.done)
        return found

    def until(self, done: Callable[[], bool]) -> None:
        while not done() and not self.closed:
            self.read()

    def read_to_end(self) -> int | None:
        """Wait until the server closes the connection; the code of its GOAWAY."""
        self.until(lambda: False)
        return self.goaway

    def read(self) -> list[Event]:
        """Handle what comes next."""
        data = b""
        with suppress(ConnectionError):
            data = self.wire.recv(65_536)
        self.closed = not data
        events = self.h2.receive_data(data) if data else []
        for event in events:
            self._handle(event)
        if not self.closed:
            self.flush()
        return events

    def _handle(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
            self.closed = True
        elif isinstance(event, ResponseReceived):
            self.responses[event.stream_id].headers = dict(event.headers)
        elif isinstance(event, DataReceived):
            self.responses[event.stream_id].data += event.data
            if self.acknowledges:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.responses[event.stream_id].ended = True
        elif isinstance(event, StreamReset):
            self.responses[event.stream_id].reset = int(event.error_code)

    # -- anything else ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            with suppress(ConnectionError):
                self.wire.sendall(data)

    def send_bytes(self, data: bytes) -> bool:
        """Send bytes as they are; whether the server still took them."""
        try:
            self.wire.sendall(data)
        except ConnectionError:
            return False
        return True

    def flood(self, frames: Iterable[bytes]) -> int | None:
        """Send until the server closes the connection; the code of its GOAWAY."""
        for data in frames:
            if not self.send_bytes(data):
                break
        return self.last_goaway()

    def last_goaway(self) -> int | None:
        """Read until the server closes the connection; the code of its last GOAWAY, whatever else it says."""
        data, code = bytearray(), None
        with suppress(ConnectionError):
            while part := self.wire.recv(65_536):
                data += part
        while len(data) >= _FRAME_HEAD:
            end = _FRAME_HEAD + int.from_bytes(data[:3])
            if data[3] == _GOAWAY:
                code = int.from_bytes(data[_FRAME_HEAD + 4 : _FRAME_HEAD + 8])
            del data[:end]
        self.closed = True
        return code


def raw_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of any type, also an invalid one."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload
