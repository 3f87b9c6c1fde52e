"""Pipelined requests on one connection: every response belongs to its request, also after errors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from io import BufferedRWPair
from struct import Struct
from typing import cast

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

from headrace.engine.spark.state_client import StateConnection

HEADER, LENGTH = Struct(">ii"), Struct(">i")
Answer = Callable[[bytes], messages.StateResponse]


def serve(connection: socket.socket, answer: Answer) -> None:
    """Speaks as Spark's state server does: one request after the other, and no more after an error."""
    with connection, connection.makefile("rwb") as file:
        while header := file.read(HEADER.size):
            version, length = HEADER.unpack(header)
            assert version == 0
            response = answer(file.read(length))
            data = response.SerializeToString()
            file.write(LENGTH.pack(len(data)) + data)
            file.flush()
            if response.statusCode:
                return


@pytest.fixture
def line() -> Iterator[Callable[[Answer], StateConnection]]:
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def connect(answer: Answer) -> StateConnection:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        opened.append(ours)
        threads.append(threading.Thread(target=serve, args=(theirs, answer), daemon=True))
        threads[-1].start()
        return StateConnection(cast(BufferedRWPair, ours.makefile("rwb", 65536)))

    yield connect
    for end in opened:
        end.shutdown(socket.SHUT_RDWR)
        end.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def echo(request: bytes) -> messages.StateResponse:
    return messages.StateResponse(value=request)


@pytest.mark.parametrize("size", [1, 1000, 20_000, 300_000], ids=lambda size: f"{size}-bytes")
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300])
def test_responses_arrive_in_order(line: Callable[[Answer], StateConnection], count: int, size: int) -> None:
    requests = [number.to_bytes(4, "big") * (size // 4 + 1) for number in range(min(count, 3_000_000 // size + 1))]
    found: list[bytes] = []
    line(echo).exchange(requests, found.append)
    assert found == requests


def test_large_responses_do_not_block(line: Callable[[Answer], StateConnection]) -> None:
    sizes: list[int] = []
    connected = line(lambda request: messages.StateResponse(value=request * 100_000))
    connected.exchange([b"x"] * 200, lambda value: sizes.append(len(value)))
    assert sizes == [100_000] * 200


def test_an_error_is_raised_without_waiting_for_more_responses(line: Callable[[Answer], StateConnection]) -> None:
    def answer(request: bytes) -> messages.StateResponse:
        failed = request == b"7"
        return messages.StateResponse(statusCode=int(failed), errorMessage="no room" if failed else "")

    connected = line(answer)
    with pytest.raises(PySparkRuntimeError, match="no room"):
        connected.exchange([b"%d" % number for number in range(50)], lambda value: None)


def test_a_failure_while_sending_leaves_no_response_unread(line: Callable[[Answer], StateConnection]) -> None:
    def requests() -> Iterator[bytes]:
        yield from (b"a", b"b", b"c")
        raise ZeroDivisionError

    connected = line(echo)
    found: list[bytes] = []
    with pytest.raises(ZeroDivisionError):
        connected.exchange(requests(), found.append)
    connected.exchange([b"d"], found.append)
    assert found[-1] == b"d"
