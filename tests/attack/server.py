"""A real `headrace up` that the campaign attacks, in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headrace.access.secret_files import find_local_secret
from headrace.log.kafka.local_cluster import free_ports

HEADRACE = (sys.executable, "-P", "-c", "from headrace.cli import main; main()")
NO_ANSWER = (OSError, http.client.HTTPException)
"""What a request raises when the server does not answer."""
_START_SECONDS = 90.0
_DOWN_SECONDS = 60.0
_PAUSE = 0.05


@dataclass(frozen=True)
class Answer:
    """A response, and the seconds that it took."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    seconds: float

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error of `/api/v1`."""
        return self.document["code"]


class AttackedServer:
    """A running server; `settings` are environment variables without their prefix, like `auth_mode`."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.folder = folder
        """The data folder."""
        self._cwd = cwd
        (self.port,) = free_ports(1)
        self._output = folder.parent / f"{folder.name}.output"
        self._environment = os.environ | {f"HEADRACE_{name.upper()}": value for name, value in (settings or {}).items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: set[int] = set()

    def __enter__(self) -> AttackedServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """What the process has printed."""
        return self._output.read_text(errors="replace")

    @property
    def operator(self) -> Mapping[str, str]:
        """Headers of a request by the operator: the secret of the data folder."""
        return {"authorization": f"Bearer {find_local_secret(self.folder)}"}

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with open(self._output, "ab") as output:
            self._process = subprocess.Popen(
                [*HEADRACE, "--data", str(self.folder), "up", "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self._cwd,
                start_new_session=True,
            )
        self._sessions.add(self._process.pid)
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_healthy():
            assert self._process.poll() is None, f"the server has ended: {self.output[-2000:]}"
            assert time.monotonic() < deadline, f"the server does not answer: {self.output[-2000:]}"
            time.sleep(_PAUSE)

    def is_healthy(self) -> bool:
        with contextlib.suppress(*NO_ANSWER):
            return self.get("/healthcheck", timeout=5.0).status == 200
        return False

    def command(self, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run `headrace` on the same data folder."""
        return subprocess.run(
            [*HEADRACE, "--data", str(self.folder), *words],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=timeout,
            check=False,
        )

    def processes(self) -> Sequence[psutil.Process]:
        """The processes below the server: Spark's and its workers."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def memory(self) -> int:
        """Resident bytes of the server's own process."""
        return psutil.Process(self.pid).memory_info().rss

    def kill(self) -> None:
        """End the server and everything that it has started."""
        if self._process is None:
            return
        for process in self.processes():
            with contextlib.suppress(OSError):
                self._sessions.add(os.getsid(process.pid))
        for leader in self._sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(leader, signal.SIGKILL)
        self._sessions.clear()
        self._process.wait(_DOWN_SECONDS)
        self._process = None

    # -- requests ---------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
    ) -> Answer:
        """Send one request on a connection of its own. A body that is not bytes is sent as JSON."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        began = time.monotonic()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)) as connection:
            connection.request(method, path, content, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return Answer(
                response.status,
                response.read(),
                {name.lower(): value for name, value in response.getheaders()},
                time.monotonic() - began,
            )

    def get(self, path: str, headers: Mapping[str, str] | None = None, *, timeout: float = 60.0) -> Answer:
        return self.request("GET", path, None, headers, timeout=timeout)

    def post(
        self, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, timeout: float = 60.0
    ) -> Answer:
        return self.request("POST", path, body, headers, timeout=timeout)

    def execute(self, statements: str, headers: Mapping[str, str] | None = None, *, timeout: float = 60.0) -> Answer:
        """Execute KSQL statements."""
        return self.post("/api/v1/statements", {"text": statements}, headers, timeout=timeout)
