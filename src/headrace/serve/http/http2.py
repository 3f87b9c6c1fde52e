"""A connection of HTTP/2, on h2: one task of the application per stream.

A client pays for what it costs (`http2_budget`). What it does not read waits in the application, because `send` waits;
what it sends beyond what the application has read is bounded by flow control. A turn of the event loop handles a few
frames only, so that a connection that always has more does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from headrace.serve.http import limits
from headrace.serve.http.http2_budget import MAX_STREAMS, AddressBudgets, Flood
from headrace.serve.http.http2_frames import MAX_FRAME_BYTES, Frame, FrameReader, FrameTooLong, FrameType, goaway
from headrace.serve.http.http2_stream import Headers, Http2Stream, MalformedRequest, request_scope

CONNECTION_WINDOW = 256 << 10
"""Maximum bytes of bodies, on all streams, that the application has not read. A stream may have 64 KiB of them."""
_FRAMES_PER_TURN = 32
_BUFFER_BYTES = 64 << 10  # written at once
_LINGER_SECONDS = 1.0
_DEFAULT_WINDOW = 65_535
_WITH_PROGRESS = (FrameType.PREFACE, FrameType.DATA, FrameType.HEADERS, FrameType.CONTINUATION)


class _H2(H2Connection):
    MAX_CLOSED_STREAMS = 10 * MAX_STREAMS  # remembered by h2, for late frames; its own limit takes megabytes


def _h2() -> H2Connection:
    connection = _H2(
        H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
        )
    )
    values = {
        SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
        SettingCodes.MAX_HEADER_LIST_SIZE: limits.MAX_HEAD_BYTES,
        SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
    }
    connection.local_settings = Settings(client=False, initial_values=values)
    connection.decoder.max_header_list_size = limits.MAX_HEAD_BYTES
    return connection


class Http2Connection(asyncio.Protocol):
    """Passes frames between a client and its streams."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        addresses: AddressBudgets,
    ) -> None:
        self._app, self._server, self._state, self._loop = config.loaded_app, server_state, app_state, loop
        self._open: set[Any] = server_state.connections
        self._addresses = addresses
        self._h2, self._frames = _h2(), FrameReader()
        self._streams: dict[int, Http2Stream] = {}
        self._last_stream = 0
        self._unwritten = 0  # bytes of responses that h2 has and the transport has not
        self._paused = False  # the client does not read
        self._draining = self._closed = False
        self._turn: asyncio.Handle | None = None
        self._flushing: asyncio.Handle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._head: asyncio.TimerHandle | None = None

    # -- the transport ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - a stream transport
        self.transport = transport
        self._open.add(self)
        client = get_remote_addr(transport)
        self._budget = self._addresses.connect(client[0] if client else "")
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "scheme": "https" if is_ssl(transport) else "http",
            "server": get_local_addr(transport),
            "client": client,
            "root_path": "",
        }
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - _DEFAULT_WINDOW)
        self._flush()
        self._idle = self._loop.call_later(limits.HEAD_TIMEOUT, self._end, ErrorCodes.NO_ERROR)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._close()
        self._budget.close()

    def data_received(self, data: bytes) -> None:
        if not self._closed:
            self._frames.add(data)
            if self._turn is None:
                self._handle_frames()

    def pause_writing(self) -> None:
        self._paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if not self._closed:
            self._resume_streams()
            if self._turn is None:
                self._handle_frames()

    # -- frames -----------------------------------------------------------------------------------------------------

    def _handle_frames(self) -> None:
        self._turn = None
        try:
            for _ in range(_FRAMES_PER_TURN):
                if self._closed or self._paused:
                    return
                if (frame := self._frames.next()) is None:
                    self._wait_for_frames()
                    return
                self._handle(frame)
        except Flood as flood:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, str(flood))
        except FrameTooLong:
            self._end(ErrorCodes.FRAME_SIZE_ERROR, "http2-errors")
        except ProtocolError as error:
            self._end(error.error_code, "http2-errors")
        else:
            self.transport.pause_reading()
            self._flush()
            self._turn = self._loop.call_soon(self._handle_frames)

    def _wait_for_frames(self) -> None:
        self._flush()
        if not self._paused:
            self.transport.resume_reading()
        if not self._frames.in_headers:
            self._cancel(self._head)
            self._head = None
        elif self._head is None:
            self._head = self._loop.call_later(limits.HEAD_TIMEOUT, self._end, ErrorCodes.NO_ERROR, "http2-headers")

    def _handle(self, frame: Frame) -> None:
        if frame.type == FrameType.RST_STREAM:
            self._budget.charge_reset(self._loop.time())
        elif frame.type not in _WITH_PROGRESS or (0 < frame.stream <= self._last_stream and not self._is_open(frame)):
            self._budget.charge_frame(self._loop.time())
        if frame.type == FrameType.GOAWAY:  # h2 would end all streams
            self._drain()
            return
        for event in self._h2.receive_data(frame.data):
            if (handler := _HANDLERS.get(type(event))) is not None:
                handler(self, event)

    def _is_open(self, frame: Frame) -> bool:
        return frame.stream in self._streams

    def _on_request(self, event: RequestReceived) -> None:
        number = self._last_stream = event.stream_id
        if self._draining or not self._budget.open_stream():
            limits.REJECTIONS["http2-streams"] += 1
            self._budget.charge_frame(self._loop.time())
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        try:
            scope = {**self._scope, **request_scope(event.headers), "state": self._state.copy()}
        except MalformedRequest:
            self._budget.close_stream()
            self._budget.charge_reset(self._loop.time())
            self._h2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = self._streams[number] = Http2Stream(self, number, scope)
        task = self._loop.create_task(stream.run(self._app))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)
        task.add_done_callback(lambda _: self._budget.close_stream())
        self._cancel(self._idle)

    def _on_data(self, event: DataReceived) -> None:
        if not event.data and event.stream_ended is None:
            self._budget.charge_frame(self._loop.time())
        stream = self._streams.get(event.stream_id)
        if stream is None or not event.data:
            self.acknowledge(event.stream_id, event.flow_controlled_length)
        if stream is not None and event.data:
            stream.receive_data(event.data, event.flow_controlled_length)

    def _on_end(self, event: StreamEnded) -> None:
        if stream := self._streams.get(event.stream_id):
            stream.end_request()

    def _on_reset(self, event: StreamReset) -> None:
        if not event.remote_reset:
            self._budget.charge_reset(self._loop.time())
        if stream := self._streams.get(event.stream_id):
            stream.disconnect()
            self._remove(stream)

    def _on_window(self, event: WindowUpdated) -> None:
        if not event.stream_id:
            self._resume_streams()
        elif stream := self._streams.get(event.stream_id):
            stream.resume()

    def _on_settings(self, _: RemoteSettingsChanged) -> None:
        self._resume_streams()

    def _resume_streams(self) -> None:
        for stream in self._streams.values():
            stream.resume()

    # -- what streams send ------------------------------------------------------------------------------------------

    def send_headers(self, stream: int, headers: Headers, *, end: bool = False) -> None:
        if headers[0][1] != b"100":
            headers[1:1] = self._server.default_headers
        self._h2.send_headers(stream, headers, end_stream=end)
        self._flush_soon()

    def send_data(self, stream: int, data: memoryview, *, end: bool) -> int:
        if not data and end:
            self._h2.send_data(stream, b"", end_stream=True)
            self._flush_soon()
        sent = 0
        while sent < len(data) and not self._paused:
            room = min(self._h2.local_flow_control_window(stream), MAX_FRAME_BYTES)
            if room <= 0:
                break
            part = data[sent : sent + room]
            sent += len(part)
            self._h2.send_data(stream, part, end_stream=end and sent == len(data))
            self._budget.credit_data()
            self._unwritten += len(part)
            if self._unwritten >= _BUFFER_BYTES:
                self._flush()
        self._flush_soon()
        return sent

    def acknowledge(self, stream: int, count: int) -> None:
        if count:
            self._h2.acknowledge_received_data(count, stream)
            self._flush_soon()

    def finish(self, stream: Http2Stream, *, complete: bool) -> None:
        """The application has nothing more to send."""
        if self._closed:
            return
        if complete:
            self._budget.credit_response()
        if not complete or not stream.request_ended:
            self._h2.reset_stream(stream.number, ErrorCodes.NO_ERROR if complete else ErrorCodes.INTERNAL_ERROR)
            self._flush_soon()
        self._remove(stream)

    def stall(self, stream: Http2Stream) -> None:
        """The client does not read: end the stream."""
        limits.REJECTIONS["http2-stalled"] += 1
        stream.disconnect()
        if not self._closed:
            self._h2.reset_stream(stream.number, ErrorCodes.CANCEL)
            self._flush_soon()
            self._remove(stream)

    def _remove(self, stream: Http2Stream) -> None:
        del self._streams[stream.number]
        self.acknowledge(stream.number, stream.take_unacknowledged())
        if not self._streams:
            self._cancel(self._idle)
            self._idle = self._loop.call_later(
                0 if self._draining else limits.IDLE_TIMEOUT, self._end, ErrorCodes.NO_ERROR
            )

    def _flush_soon(self) -> None:
        """Write once for all that is sent in this turn of the event loop."""
        if self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._cancel(self._flushing)
        self._flushing = None
        self._unwritten = 0
        if not self._closed and (data := self._h2.data_to_send()):
            self.transport.write(data)

    # -- the end ----------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Accept no further requests; those in progress have some time to finish."""
        if not self._closed:
            self._flush()
            self.transport.write(goaway(self._last_stream, ErrorCodes.NO_ERROR))
            self._drain()
            self._loop.call_later(0.8 * limits.SHUTDOWN_GRACE, self._end, ErrorCodes.NO_ERROR)

    def _drain(self) -> None:
        self._draining = True
        if not self._streams:
            self._end(ErrorCodes.NO_ERROR)

    def _end(self, code: int, reason: str | None = None) -> None:
        """Close the connection, and tell the client why."""
        if self._closed:
            return
        if reason is not None:
            limits.REJECTIONS[reason] += 1
        self._flush()
        self.transport.write(goaway(self._last_stream, code))
        self._close()
        if code == ErrorCodes.NO_ERROR:
            self.transport.close()
            self._loop.call_later(limits.STALL_TIMEOUT, self.transport.abort)  # if the client does not read
        else:
            self._linger()

    def _linger(self) -> None:
        """Discard what the client still sends: if it were not received, the client would not receive the GOAWAY."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        self._loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _close(self) -> None:
        self._closed = True
        for timer in (self._turn, self._flushing, self._idle, self._head):
            self._cancel(timer)
        for stream in self._streams.values():
            stream.disconnect()
        self._streams.clear()

    @staticmethod
    def _cancel(timer: asyncio.Handle | None) -> None:
        if timer is not None:
            timer.cancel()


_HANDLERS: Mapping[type[Event], Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._on_request,
    DataReceived: Http2Connection._on_data,
    StreamEnded: Http2Connection._on_end,
    StreamReset: Http2Connection._on_reset,
    WindowUpdated: Http2Connection._on_window,
    RemoteSettingsChanged: Http2Connection._on_settings,
}
