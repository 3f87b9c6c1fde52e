"""Receivers of notices on the loopback interface: a webhook, and a mail server that keeps its messages."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[int], tuple[int, dict[str, str]]]


@dataclass
class WebhookReceiver:
    """Answers with what `answer` says of the nth request: a status, and further headers."""

    port: int = 0
    posted: list[Posted] = field(default_factory=list)
    answer: Answer = lambda number: (200, {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"


@contextmanager
def webhook_receiver(
    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda number: (200, {}), port: int = 0
) -> Iterator[WebhookReceiver]:
    found = WebhookReceiver(answer=answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.posted.append(Posted(self.path, headers, body))
            status, more = found.answer(len(found.posted) - 1)
            self.send_response(status)
            for name, value in {**more, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with _serving(ThreadingHTTPServer(("127.0.0.1", port), Handler)) as server:
        found.port = server.server_address[1]
        yield found


@dataclass
class MailReceiver:
    """RCPT gets what `answer` says of the address. `taken` are the addresses of each mail."""

    answer: Callable[[str], str]
    port: int = 0
    mails: list[str] = field(default_factory=list)
    taken: list[list[str]] = field(default_factory=list)


@contextmanager
def mail_receiver(answer: str | Callable[[str], str] = "250 ok", bye: str = "221 bye") -> Iterator[MailReceiver]:
    """As much of SMTP as it takes to receive a mail in clear text. QUIT gets `bye`."""
    found = MailReceiver(answer if callable(answer) else lambda address: answer)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            taken: list[str] = []
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                if word == "RCPT":
                    self._say(said := found.answer(address := line.partition("<")[2].partition(">")[0]))
                    taken += [address] if said.startswith("2") else []
                    continue
                if word == "DATA":
                    self._say("354 go on")
                    found.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                    found.taken.append(taken)
                self._say({"QUIT": bye}.get(word, "250 ok"))
                if word == "QUIT":
                    return

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as server:
        found.port = server.server_address[1]
        yield found


@contextmanager
def _serving(server: Any) -> Iterator[Any]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
