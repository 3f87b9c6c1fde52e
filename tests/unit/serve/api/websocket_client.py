"""A WebSocket client of a few lines, for tests."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any, Self

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, RejectData, Request, TextMessage


class Socket:
    def __init__(self, host: str, port: int, path: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        self._tcp = socket.create_connection((host, port), timeout=30)
        self._ws = WSConnection(ConnectionType.CLIENT)
        named = [(name.encode(), value.encode()) for name, value in headers]
        self._tcp.sendall(self._ws.send(Request(host=f"{host}:{port}", target=path, extra_headers=named)))
        self._events: list[Any] = []
        self.status = 101
        self.refused = b""
        self._begin()

    def _begin(self) -> None:
        first = self._next()
        if isinstance(first, RejectConnection):
            self.status = first.status_code
            while not isinstance(part := self._next(), RejectData) or not part.body_finished:
                self.refused += part.data
            self.refused += part.data
        else:
            assert isinstance(first, AcceptConnection), first

    def say(self, text: str) -> None:
        self._tcp.sendall(self._ws.send(TextMessage(text)))

    def message(self) -> Any:
        """The next message, as JSON; None if the server has closed."""
        text = ""
        while True:
            event = self._next()
            if isinstance(event, CloseConnection):
                return None
            if isinstance(event, Ping):
                self._tcp.sendall(self._ws.send(event.response()))
            if isinstance(event, TextMessage):
                text += event.data
                if event.message_finished:
                    return json.loads(text)

    def _next(self) -> Any:
        while not self._events:
            self._ws.receive_data(self._tcp.recv(1 << 16) or None)
            self._events = list(self._ws.events())
        return self._events.pop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tcp.close()
