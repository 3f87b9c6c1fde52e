"""Finds the server process of a data folder and its address. It is reliable: a kernel lock ends with its process.

    with advertise(data, "http://127.0.0.1:8088"): ...
    find_server(data)       the server, or None

The lock is that of the server's queries (see `lock`), with both kinds of log. The address is in a file next to it, and
is valid only if it is that of the process that holds the lock.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.access.secret_files import find_local_secret
from headrace.client.exchange import ServerAddress
from headrace.errors import ServerNotRunning, ServerUnreachable
from headrace.log.embedded.storage.store import translate_errors

SERVER_PROGRAM = "server"
"""Program name of the server's queries: the name of their checkpoint folder and its lock."""
_PAUSE = 0.05
_KILL_SECONDS = 2.0  # before the timeout: the kernel needs a moment to release the memory of a large process


@dataclass(frozen=True)
class ServerInfo:
    """A server. Without an address it is still starting, or stopping."""

    pid: int
    since: str
    address: str | None = None

    @property
    def required_address(self) -> str:
        """The server's address; raises if it has none."""
        if self.address is None:
            raise ServerUnreachable(
                f"the server (process {self.pid}) is starting or stopping", fix="try again, or see `headrace logs`"
            )
        return self.address


@contextmanager
def advertise(data: Path, address: str) -> Iterator[None]:
    """For the block, let other processes find this process's server."""
    path = _address_file(data)
    with translate_errors(path.parent):
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), "address": address}))
        new.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def local_token(data: Path, address: str) -> str | None:
    """The secret of the data folder, if its own server listens at this address: no other server may learn it."""
    server = find_server(data)
    if server is None or server.address is None or ServerAddress.parse(address) != ServerAddress.parse(server.address):
        return None
    return find_local_secret(data)


@dataclass(frozen=True)
class StoppedServer:
    """How a server ended; `forced` if it was killed at the timeout."""

    pid: int
    seconds: float
    forced: bool


def find_server(data: Path) -> ServerInfo | None:
    """The server of a data folder; None if there is none."""
    lock = _folder(data) / "program.lock"
    if (pid := lock_holder(lock)) is None:
        return None
    lock_file, address_file = _read(lock), _read(_address_file(data))
    since = str(lock_file["since"]) if lock_file.get("pid") == pid else ""  # the process may not have written it yet
    return ServerInfo(pid, since, str(address_file["address"]) if address_file.get("pid") == pid else None)


def get_server(data: Path) -> ServerInfo:
    """The server of a data folder; raises an error that says how to start one."""
    if (server := find_server(data)) is None:
        raise ServerNotRunning(f'no server is running on data folder "{data}"', fix="start one: headrace up")
    return server


def stop_server(data: Path, timeout: float) -> StoppedServer:
    """Stop the server after its current batches and wait for its end; at the timeout it is ended by force."""
    server, began = get_server(data), time.monotonic()
    forced = False
    with suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGTERM)
    while _serves(server, data) or _is_alive(server.pid):
        seconds = time.monotonic() - began
        if not forced and seconds >= timeout - _KILL_SECONDS:
            _kill(server.pid)
            forced = True
        elif seconds > max(timeout, _KILL_SECONDS):
            raise ServerUnreachable(
                f"the server (process {server.pid}) did not end within {seconds:.0f} s, though it was killed",
                fix=f"see what the process waits for: cat /proc/{server.pid}/stack",
            )
        time.sleep(_PAUSE)
    return StoppedServer(server.pid, time.monotonic() - began, forced)


def _kill(pid: int) -> None:
    """Kill a server and its worker processes, each of which leads a process group; they may be stopped by a signal."""
    for worker in _children(pid):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """The child processes that lead a process group of their own."""
    with suppress(OSError):
        tasks = list((Path("/proc") / str(pid) / "task").iterdir())
        children = {int(child) for task in tasks for child in (task / "children").read_text().split()}
        return [child for child in children if os.getpgid(child) == child]
    return []


def _serves(server: ServerInfo, data: Path) -> bool:
    return (now := find_server(data)) is not None and now.pid == server.pid


def _is_alive(pid: int) -> bool:
    """Whether the process is alive; a zombie is not."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def _folder(data: Path) -> Path:
    return data / "checkpoints" / SERVER_PROGRAM


def _address_file(data: Path) -> Path:
    return _folder(data) / "server.json"


def lock_holder(path: Path) -> int | None:
    """The pid that holds the lock, from /proc/locks. Trying the lock would take it, and block a server's start."""
    with suppress(OSError):
        lock_stat = os.stat(path)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.replace("->", "").split()
            pid, place = int(words[4]), words[5]
            if words[1] == "FLOCK" and place.rpartition(":")[2] == str(lock_stat.st_ino) and _has_open(pid, lock_stat):
                return pid
    return None


def _has_open(pid: int, lock_stat: os.stat_result) -> bool:
    """Whether the process has that very file open: another file system may use the same inode number."""
    try:
        return any(_is_file(link, lock_stat) for link in (Path("/proc") / str(pid) / "fd").iterdir())
    except PermissionError:  # another user's process: the inode number has to suffice
        return True
    except OSError:
        return False


def _is_file(link: Path, expected: os.stat_result) -> bool:
    with suppress(OSError):
        actual = os.stat(link)
        return (actual.st_dev, actual.st_ino) == (expected.st_dev, expected.st_ino)
    return False


def _read(path: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        document = json.loads(path.read_text())
        return document if isinstance(document, dict) else {}
    return {}
