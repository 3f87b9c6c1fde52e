"""A server whose answers are given: for what a real one does only when it breaks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

Serve = Callable[..., str]


@pytest.fixture
def broken() -> Iterator[Serve]:
    """Answers one request after another with these bytes, and is gone; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(*answers: bytes) -> str:
        threads.append(threading.Thread(target=_answer, args=(listening, answers)))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield serve
    listening.close()
    for thread in threads:
        thread.join()


def _answer(listening: socket.socket, answers: tuple[bytes, ...]) -> None:
    for answer in answers:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # a reset would take away what was not read yet
                pass
