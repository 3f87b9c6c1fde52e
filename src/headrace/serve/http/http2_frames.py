"""Splits the bytes of an HTTP/2 connection into frames, and bounds header blocks before anything is decoded."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from headrace.serve.http.http2_budget import Flood
from headrace.serve.http.limits import MAX_HEAD_BYTES

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 1 << 14
"""Maximum payload of a received frame: the least that the standard allows, and what clients assume."""
_MAX_BLOCK_FRAMES = 16  # of a header block
_HEAD_BYTES = 9
_END_HEADERS = 0x4
_SETTING = struct.Struct(">HL")
_MAX_SETTINGS = 32  # of a frame
_HEADER_TABLE_SIZE, _MAX_TABLE_BYTES = 1, 4_096
_KNOWN_SETTINGS = frozenset([*range(1, 7), 8])


class FrameType(IntEnum):
    """The types that matter here. The preface counts as one."""

    PREFACE = -1
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    GOAWAY = 7
    CONTINUATION = 9


class FrameTooLong(Exception):
    """A frame exceeds the maximum size."""


class Frame(NamedTuple):
    """A whole frame as it was received."""

    type: int
    stream: int
    data: bytes


class FrameReader:
    """Collects received bytes; `next` takes one frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begun = False
        self._block_frames = self._block_bytes = 0

    @property
    def in_headers(self) -> bool:
        """Whether a header block has begun and not ended."""
        return self._block_frames > 0

    def add(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Frame | None:
        """The next frame, if all of it has arrived."""
        if not self._begun:
            return self._preface()
        if len(self._buffer) < _HEAD_BYTES:
            return None
        length, kind, flags = int.from_bytes(self._buffer[:3]), self._buffer[3], self._buffer[4]
        if length > MAX_FRAME_BYTES:
            raise FrameTooLong
        if len(self._buffer) < _HEAD_BYTES + length:
            return None
        if kind in (FrameType.HEADERS, FrameType.CONTINUATION):
            self._bound_block(length, ends=bool(flags & _END_HEADERS))
        stream = int.from_bytes(self._buffer[5:9]) & 0x7FFFFFFF
        data = self._take(_HEAD_BYTES + length)
        return Frame(kind, stream, _bounded_settings(data) if kind == FrameType.SETTINGS else data)

    def _preface(self) -> Frame | None:
        if len(self._buffer) < len(PREFACE):
            return None
        self._begun = True
        return Frame(FrameType.PREFACE, 0, self._take(len(PREFACE)))

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _bound_block(self, length: int, *, ends: bool) -> None:
        self._block_frames += 1
        self._block_bytes += length
        if self._block_frames > _MAX_BLOCK_FRAMES or self._block_bytes > MAX_HEAD_BYTES:
            raise Flood("http2-headers")
        if ends:
            self._block_frames = self._block_bytes = 0


def _bounded_settings(data: bytes) -> bytes:
    """A SETTINGS frame without unknown settings, which h2 would keep, and with the usual table of headers at most."""
    head, payload = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
    if len(payload) > _MAX_SETTINGS * _SETTING.size:
        raise Flood("http2-frames")
    if len(payload) % _SETTING.size:
        return data  # an error, as h2 knows
    allowed_settings = b"".join(
        _SETTING.pack(key, min(value, _MAX_TABLE_BYTES) if key == _HEADER_TABLE_SIZE else value)
        for key, value in _SETTING.iter_unpack(payload)
        if key in _KNOWN_SETTINGS
    )
    return len(allowed_settings).to_bytes(3) + head[3:] + allowed_settings


def goaway(last_stream: int, code: int) -> bytes:
    """A GOAWAY frame. (h2 cannot end a connection and still finish its streams.)"""
    return struct.pack(">HBBBLLL", 0, 8, FrameType.GOAWAY, 0, 0, last_stream, code)
