"""The server of table `serve`: `headrace up` in a process of its own, on a free port of this machine."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.access.secret_files import find_local_secret

PROGRAM = "from headrace.cli import main; main()"
_LISTENS = re.compile(r"listens on http://[\d.]+:(\d+)")
_PATIENCE = 120.0  # seconds, for what must come


@dataclass(frozen=True)
class Server:
    """A running server."""

    pid: int
    port: int
    secret: str
    """Of the data folder: requests are the operator's."""

    def text(self, path: str, body: str | None = None, method: str = "") -> str:
        """The body of the response. Raises if the server refuses the request."""
        verb = method or ("GET" if body is None else "POST")
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)) as connection:
            headers = {"content-type": "application/json", "authorization": f"Bearer {self.secret}"}
            connection.request(verb, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        if response.status >= 300:
            raise RuntimeError(f"{response.status}: {text[:500]}")
        return text

    def post(self, path: str, body: Any) -> Any:
        return json.loads(self.text(path, json.dumps(body)))

    def put(self, path: str, body: Any) -> Any:
        return json.loads(self.text(path, json.dumps(body), "PUT"))

    def get(self, path: str) -> Any:
        return json.loads(self.text(path))

    def ksql(self, text: str) -> Any:
        return self.post("/ksql", {"ksql": text})

    def rows(self, query: str) -> list[Any]:
        response = self.post("/query", {"ksql": query})
        return [entry["row"]["columns"] for entry in response if "row" in entry]


@contextmanager
def server(folder: Path, **settings: str) -> Iterator[Server]:
    """Runs a server until the end of the block; `settings` by their names."""
    output = folder.parent / f"{folder.name}-server.txt"
    command = [sys.executable, "-c", PROGRAM, "--data", str(folder), "up", "--port", "0"]
    settings = {"spark_warm_start": "false", **settings}  # it would disturb a case that begins at once
    environment = os.environ | {f"HEADRACE_{name.upper()}": value for name, value in settings.items()}
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environment) as process:
        try:
            yield Server(process.pid, _port(process, output), find_local_secret(folder) or "")
        finally:
            process.send_signal(signal.SIGTERM)
            _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def _port(process: subprocess.Popen[bytes], output: Path) -> int:
    until(lambda: process.poll() is not None or _LISTENS.search(output.read_text()) is not None, "the server listens")
    match = _LISTENS.search(output.read_text())
    if match is None:
        raise RuntimeError(f"the server has ended: {output.read_text()[-1000:]}")
    return int(match[1])


def until(holds: Callable[[], bool], what: str, patience: float = _PATIENCE, pause: float = 0.05) -> None:
    """Waits until a condition holds; looks again after so many seconds."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {patience:g} s this does not hold yet: {what}")
        time.sleep(pause)
