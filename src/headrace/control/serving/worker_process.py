"""A pull worker as its server sees it: a process that gets requests and returns frames (see `pull_protocol`)."""

from __future__ import annotations

import logging
import os
import pickle
import select
import subprocess
import sys
import time
from contextlib import suppress

from headrace.control.serving.pull_protocol import HEADER, FrameType, PullRequest
from headrace.import_path import child_environment
from headrace.settings import Settings

_POLL_SECONDS = 2.0
_END_SECONDS = 5.0
"""How long a process that was killed may take to end."""
_logger = logging.getLogger(__name__)


class PullWorker:
    """One process. `read` and `send` are called by one thread at a time, `kill` by any."""

    def __init__(self, settings: Settings) -> None:
        memory = str(int(settings.query.pull_max_memory))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.control.serving.pull_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**child_environment(), "HEADRACE_PULL_MEMORY": memory},
            start_new_session=True,  # Ctrl-C goes to the server only
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, request: PullRequest) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which reading the answer reports
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()

    def read(self, deadline: float) -> tuple[FrameType, bytes]:
        """The next frame: its type, and the pickle of its content."""
        frame, length = HEADER.unpack(self._read(HEADER.size, deadline))
        return FrameType(frame), self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        file, data, poll = self._process.stdout.fileno(), bytearray(), select.poll()
        poll.register(file, select.POLLIN)
        while len(data) < size:
            wait = max(0.0, deadline - time.monotonic())
            if not poll.poll(1000 * min(wait, _POLL_SECONDS)):
                if not wait:
                    raise TimeoutError
                continue
            part = os.read(file, min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> int | None:
        """Kill the process and release its pipes; returns how it had ended, or the signal. None: it does not end."""
        self.kill()
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it hangs in the kernel, for example in a disk that does not answer
            _logger.warning("pull worker %d was killed and does not end", self.pid)
            code = None
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return code
