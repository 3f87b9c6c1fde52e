"""Which process serves a data folder, and where: what cannot lie, as the kernel's lock goes with the process.

    with announced(data, "http://127.0.0.1:8088"): ...
    present(data)       the server, or None

The lock is that of the server's queries (see `hold`), on both logs. The address lies beside it, and counts only if it
is of the process that has the lock.
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

from headrace.errors import NoServer, ServerUnreachable
from headrace.log.embedded.store import translated

SERVER = "server"
"""What a server's queries are kept under, and locked by."""
_PAUSE = 0.05


@dataclass(frozen=True)
class Presence:
    """A server. Without an address it is still starting, or ending."""

    pid: int
    since: str
    address: str | None = None

    @property
    def reached_at(self) -> str:
        """Its address, or an error that says why it has none."""
        if self.address is None:
            raise ServerUnreachable(
                f"the server (process {self.pid}) is starting or ending", fix="try again, or look at `headrace logs`"
            )
        return self.address


@contextmanager
def announced(data: Path, address: str) -> Iterator[None]:
    """To the end of the block others can find this process's server."""
    path = _address_file(data)
    with translated(path.parent):
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), "address": address}))
        new.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def present(data: Path) -> Presence | None:
    """The server of a data folder; None if there is none."""
    lock = _folder(data) / "program.lock"
    if (pid := holder(lock)) is None:
        return None
    said, told = _read(lock), _read(_address_file(data))
    since = str(said["since"]) if said.get("pid") == pid else ""  # it may not have said it yet
    return Presence(pid, since, str(told["address"]) if told.get("pid") == pid else None)


def server_of(data: Path) -> Presence:
    """The same, or an error that says how to start one."""
    if (there := present(data)) is None:
        raise NoServer(f'no server runs on data folder "{data}"', fix="`headrace up` starts one")
    return there


def end(data: Path, patience: float) -> tuple[Presence, float]:
    """Let the server's batches under way end, and wait until it is gone; who it was, and how many seconds it took."""
    there, begun = server_of(data), time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(there.pid, signal.SIGTERM)
    while _serves(there, data) or _is_alive(there.pid):
        if time.monotonic() - begun > patience:
            raise ServerUnreachable(
                f"the server (process {there.pid}) has not ended within {patience:g} s",
                fix=f"wait, or `kill -9 {there.pid}`: nothing that was acknowledged is lost by that",
            )
        time.sleep(_PAUSE)
    return there, time.monotonic() - begun


def _serves(server: Presence, data: Path) -> bool:
    return (now := present(data)) is not None and now.pid == server.pid


def _is_alive(pid: int) -> bool:
    """Not if all that is left of it is what its parent has yet to ask for."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def _folder(data: Path) -> Path:
    return data / "checkpoints" / SERVER


def _address_file(data: Path) -> Path:
    return _folder(data) / "server.json"


def holder(path: Path) -> int | None:
    """Who has the lock, as the kernel lists it. To try it would be to have it, and to keep a server from starting."""
    with suppress(OSError):
        wanted = os.stat(path)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.replace("->", "").split()
            pid, place = int(words[4]), words[5]
            if words[1] == "FLOCK" and place.rpartition(":")[2] == str(wanted.st_ino) and _has_open(pid, wanted):
                return pid
    return None


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    """Whether it is the file that it is taken for: another file system may have one of the same number."""
    with suppress(OSError):
        return any(_is_file(link, wanted) for link in (Path("/proc") / str(pid) / "fd").iterdir())
    return False


def _is_file(link: Path, wanted: os.stat_result) -> bool:
    with suppress(OSError):
        found = os.stat(link)
        return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    return False


def _read(path: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}
