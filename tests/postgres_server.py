"""A PostgreSQL server for tests, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

from tests.wait import wait_until

_DEBIAN = "usr/lib/postgresql/*/bin/postgres"
_PASSWORD = "of the tests' own: %/@"
_OPTIONS = ("listen_addresses=", "fsync=off", "max_connections=40", "shared_buffers=16MB")


def programs() -> Path | None:
    """The folder of the server's programs, the newest; None if they are not installed."""
    found = sorted(Path("/").glob(_DEBIAN), key=lambda path: float(path.parts[-3]))
    found = found or [Path(path).resolve() for path in (shutil.which("postgres"),) if path]
    return found[-1].parent if found else None


@dataclass
class Postgres:
    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Postgres]:
        """Not in pytest's folders, which only their owner may enter: a server does not run as root."""
        folder = Path(mkdtemp(prefix="headrace-pg-"))
        try:
            _own(folder)
            (folder / "password").write_text(_PASSWORD)
            made = ["initdb", "-D", f"{folder}/data", "-U", "tester", "-A", "scram-sha-256", "-E", "UTF8"]
            _run([*made, "--locale=C", "--no-sync", f"--pwfile={folder}/password"]).check_returncode()
            server = cls(folder, _serve(folder))
            try:
                server.wait()
                yield server
            finally:
                server.end(signal.SIGQUIT)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"postgresql://tester:{quote(_PASSWORD, safe='')}@/postgres?host={self.folder}"

    def end(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT lets it end in order, SIGQUIT is as a crash."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=60)

    def start_again(self) -> None:
        self.process = _serve(self.folder)
        self.wait()

    def wait(self) -> None:
        ready = ["pg_isready", "-q", "-h", str(self.folder)]
        wait_until(lambda: _run(ready).returncode == 0, (self.folder / "log").read_text)


def _serve(folder: Path) -> subprocess.Popen[bytes]:
    options = [part for option in _OPTIONS for part in ("-c", option)]
    with (folder / "log").open("ab") as log:
        command = [_program("postgres"), "-D", f"{folder}/data", "-k", str(folder), *options]
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **_unprivileged_user())


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [_program(command[0]), *command[1:]],
        capture_output=True,
        timeout=120,
        check=False,
        cwd="/",
        **_unprivileged_user(),
    )


def _program(name: str) -> str:
    folder = programs()
    assert folder is not None
    return str(folder / name)


def _unprivileged_user() -> dict[str, object]:
    """Who is not root, if we are."""
    if os.geteuid() != 0:
        return {}
    return {"user": "postgres", "group": "postgres", "extra_groups": []}


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
