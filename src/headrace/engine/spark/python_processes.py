"""Starts the fork server of this process, for the Python processes of its Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from headrace.engine.spark import python_launcher
from headrace.engine.spark.fork_server import HASH_SEED
from headrace.import_path import child_environment

_MAX_SHEBANG = 120  # characters; the system's limit is 127
_lock = threading.Lock()
_running: ForkServerProcess | None = None


def python_executable(folder: Path) -> str:
    """The program that Spark starts as Python: a launcher in `folder`, or Python where that is impossible."""
    global _running
    if sys.platform != "linux" or len(sys.executable) > _MAX_SHEBANG or " " in sys.executable:
        return sys.executable
    with _lock:
        if _running is None or not _running.is_alive:
            _running = ForkServerProcess(folder)
        # a folder for temporary files may allow no programs (noexec)
        return str(_running.launcher) if os.access(_running.launcher, os.X_OK) else sys.executable


class ForkServerProcess:
    """A fork server, and the launcher that asks it for processes. It ends with this process."""

    def __init__(self, folder: Path) -> None:
        self._address = folder / "fork-server.sock"
        self.launcher = folder / "python"
        self._write_launcher()
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _write_launcher(self) -> None:
        text = Path(python_launcher.__file__).read_text(encoding="utf-8")
        places = f"PYTHON, ADDRESS = {sys.executable!r}, {str(self._address)!r}\n"
        lines = [places if line.startswith("PYTHON, ADDRESS") else line for line in text.splitlines(keepends=True)]
        self.launcher.write_text(f"#!{sys.executable} -IS\n" + "".join(lines), encoding="utf-8")
        self.launcher.chmod(0o700)

    def _start(self) -> subprocess.Popen[bytes]:
        """Launchers can connect at once, and are served when the server has imported its modules."""
        self._address.unlink(missing_ok=True)
        life, self._life = os.pipe()  # this end stays open until this process ends
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._address))
            listener.listen(128)
            files = listener.fileno(), life
            seed = os.environ.get(HASH_SEED, "0")  # as Spark's workers have it
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "headrace.engine.spark.fork_server", *map(str, files)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={**child_environment(), HASH_SEED: seed},
                    pass_fds=files,
                    process_group=0,  # Ctrl-C goes to the parent only
                )
            finally:
                os.close(life)
