"""Lives of a real `headrace up` on one port and one folder, and what of them can be killed."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from tests.faults.engine.driver_process import python_workers
from tests.faults.log.worker_pool import end_session
from tests.faults.system.job import TABLES

from headrace.log.kafka.local_cluster import free_ports

HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
LOST = (OSError, http.client.HTTPException)
"""What a connection ends with when the server is killed, or not there."""
SERVES = 60.0  # seconds in which a server must serve; over the limit of the campaign, so that the time is known
GOES = 30.0  # seconds in which what a killed server has left must have ended by itself
_PATIENCE = 90.0  # seconds for an answer
_DOWN = 120  # seconds for a server to end in order
_PAUSE = 0.05


class Server:
    def __init__(self, data: Path, notes: Path, settings: Mapping[str, str]) -> None:
        self.data = data
        self._notes = notes
        self._environment = os.environ | {f"HEADRACE_{name.upper()}": value for name, value in settings.items()}
        self._environment["TMPDIR"] = str(notes)  # what a killed server leaves there goes with the rest
        (self.port,) = free_ports(1)
        self._lives = count()
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: set[int] = set()

    # -- from its start to its end ----------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def last_words(self) -> str:
        path = max(self._notes.glob("server-*.txt"), key=lambda path: path.stat().st_mtime)
        return path.read_text(errors="replace")[-2000:]

    def start(self) -> None:
        with open(self._notes / f"server-{next(self._lives)}.txt", "wb") as told:
            self._process = subprocess.Popen(
                [*HEADRACE, "--data", str(self.data), "up", "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                env=self._environment,
                start_new_session=True,
            )
        self._sessions.add(self.pid)

    def await_serving(self) -> float:
        """Until it says that it is well, and answers a question; how many seconds that took."""
        begun = time.monotonic()
        while not self.serves():
            if self.ended:
                raise RuntimeError(f"the server ended by itself: {self.last_words}")
            if time.monotonic() - begun > SERVES:
                raise RuntimeError(f"the server did not serve in {SERVES:g} s: {self.last_words}")
            time.sleep(_PAUSE)
        return time.monotonic() - begun

    def serves(self) -> bool:
        """A table that nobody has made yet cannot be asked, which is an answer."""
        with contextlib.suppress(*LOST):
            well, _ = self.ask("GET", "/healthcheck")
            asked, _ = self.ask("GET", f"/api/v1/views/{TABLES[0]}/rows?limit=1")
            return well == 200 and asked in (200, 404)
        return False

    def run(self, *command: str, patience: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Another command on the same folder."""
        return subprocess.run(
            [*HEADRACE, "--data", str(self.data), *command],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=patience,
            check=False,
        )

    def down(self) -> None:
        """In order; raises if it does not end so."""
        ended = self.run("down", "--timeout", f"{_DOWN}s", patience=_DOWN + 60)
        assert self._process is not None
        if ended.returncode or self._process.wait(_DOWN):
            raise RuntimeError(f"the server did not end in order: {ended.stderr} {self.last_words}")

    def clear(self) -> None:
        """End whatever is left of all lives."""
        self._note_sessions()
        for leader in self._sessions:
            end_session(leader)

    # -- requests ---------------------------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the document."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """The document of what must not be refused."""
        status, document = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {document}")
        return document

    # -- its processes ----------------------------------------------------------------------------------------------

    def below(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def spark(self) -> list[psutil.Process]:
        """The process aside that drives Spark."""
        return [process for process in self.below() if "headrace.control.workers.worker" in _words(process)]

    def java(self) -> list[psutil.Process]:
        return [process for process in self.below() if (_words(process) or [""])[0].endswith("java")]

    def workers(self) -> list[psutil.Process]:
        return python_workers(self.pid)

    def kill_tree(self) -> None:
        """All of it at once, as when the machine is switched off."""
        self._note_sessions()
        self._kill()
        for leader in self._sessions:
            end_session(leader)
        self._sessions.clear()

    def kill_alone(self) -> list[psutil.Process]:
        """What it leaves, which must end by itself."""
        self._note_sessions()
        left = self.below()
        self._kill()
        return left

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _note_sessions(self) -> None:
        for process in self.below():
            with contextlib.suppress(OSError):
                self._sessions.add(os.getsid(process.pid))


def _words(process: psutil.Process) -> Sequence[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
