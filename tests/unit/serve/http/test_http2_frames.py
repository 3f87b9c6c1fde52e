"""Frames as they are received, and what is left out of them."""

from __future__ import annotations

import struct

import pytest

from headrace.serve.http.http2_budget import Flood
from headrace.serve.http.http2_frames import PREFACE, FrameReader, FrameTooLong
from tests.http2_client import raw_frame

SETTINGS, PING = 4, 6


def settings(*pairs: tuple[int, int]) -> bytes:
    return raw_frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *pair) for pair in pairs))


def received(data: bytes, step: int = 1 << 20) -> list[bytes]:
    reader, frames = FrameReader(), list[bytes]()
    data = PREFACE + data
    for start in range(0, len(data), step):
        reader.add(data[start : start + step])
        while (frame := reader.next()) is not None:
            frames.append(frame.data)
    assert frames[0] == PREFACE
    return frames[1:]


@pytest.mark.parametrize("step", [1, 10, 1_000])
def test_frames_may_arrive_in_pieces(step: int) -> None:
    frames = [settings(), raw_frame(PING, 0, 0, bytes(8)), raw_frame(0, 1, 5, b"x" * 16_384)]
    assert received(b"".join(frames), step) == frames


def test_unknown_settings_are_left_out_and_tables_are_bounded() -> None:
    assert received(settings((1, 1 << 31), (4, 7), (77, 1))) == [settings((1, 4_096), (4, 7))]


def test_too_many_settings_are_a_flood() -> None:
    with pytest.raises(Flood):
        received(settings(*[(n, 1) for n in range(33)]))


def test_a_frame_has_a_maximum_size() -> None:
    with pytest.raises(FrameTooLong):
        received(raw_frame(0, 0, 1, b"x" * 16_385)[:9])
