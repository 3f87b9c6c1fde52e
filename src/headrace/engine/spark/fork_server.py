"""The process that Spark's Python processes are forked from: `python -m headrace.engine.spark.fork_server`.

Spark starts a Python process for each kind of worker, and one for the source of each query. Each would import the same
modules for half a second to a second, while a query waits. This process imports them once, while Java starts. Spark
starts a small program instead of Python (`python_launcher`), which passes its arguments, its environment and its
standard files on; the process that is forked then runs the module that Spark asked for.

A forked process is terminated when its launcher ends, and all of them when the process that started this one ends.
Without this process, or if it does not answer, the launcher becomes an ordinary Python.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from headrace.engine.spark.daemon import PRELOADED_MODULES, preload, thread_count

MODULES = (
    "pyspark.daemon",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.worker",
)
"""What Spark runs as programs."""
HASH_SEED = "PYTHONHASHSEED"
STARTED = b"+"
"""The answer to a launcher whose module is run here; the exit code follows when the process has ended."""
_HASH_SEED = HASH_SEED.encode()
_END = b"\0END"  # of a request
_MAX_REQUEST = 1 << 20
_REQUEST_SECONDS = 5.0


class Request(NamedTuple):
    """What Python is started with."""

    arguments: list[str]
    environment: dict[bytes, bytes]
    folder: bytes

    @property
    def is_served(self) -> bool:
        """Whether a fork of this process is what Python would be."""
        seed = self.environment.get(_HASH_SEED)
        return self.arguments[:1] == ["-m"] and len(self.arguments) > 1 and seed in (None, os.environb.get(_HASH_SEED))


class ForkServer:
    """Serves launchers on a socket that the parent has opened, until the parent closes its end of a pipe."""

    def __init__(self, listener: socket.socket, life: int) -> None:
        self._listener, self._life = listener, life
        self._selector = selectors.DefaultSelector()
        self._processes: dict[int, socket.socket] = {}
        """Launchers, by the process that was forked for each."""
        self._wakeup, wakeup_writer = socket.socketpair()
        for one in (self._wakeup, wakeup_writer):
            one.setblocking(False)
        signal.set_wakeup_fd(wakeup_writer.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only wakes up
        self._wakeup_writer = wakeup_writer
        for source in (listener, self._wakeup, life):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wakeup:
                    with suppress(BlockingIOError):
                        self._wakeup.recv(4096)
                elif key.fileobj == self._life:
                    self._end()
                elif isinstance(key.fileobj, socket.socket):
                    self._lose(key.fileobj)
            self._reap()

    def _accept(self) -> None:
        launcher, _ = self._listener.accept()
        launcher.settimeout(_REQUEST_SECONDS)
        files: list[int] = []
        try:
            request, files = _receive(launcher)
            if request is None:
                launcher.close()  # it runs Python by itself
                return
            # Before there is a process: without this answer, the launcher would run the module, too.
            launcher.sendall(STARTED)
            process = os.fork()
            if not process:
                launcher.close()
                self._become(request, files)
            self._processes[process] = launcher
            launcher.setblocking(False)
            self._selector.register(launcher, selectors.EVENT_READ)
        except (OSError, EOFError, ValueError, TypeError):
            self._lose(launcher)
            launcher.close()
        finally:
            for file in files:
                os.close(file)

    def _become(self, request: Request, files: list[int]) -> NoReturn:
        """In the forked process: run the module, as if Python had been started for it."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for one in (self._listener, self._wakeup, self._wakeup_writer, *self._processes.values()):
                one.close()
            os.close(self._life)
            for target, file in enumerate(files):
                os.dup2(file, target)
            for file in files:
                os.close(file)
            code = run(request)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _lose(self, launcher: socket.socket) -> None:
        """Spark has ended the launcher, which is the only process that it knows."""
        _terminate(process for process, one in self._processes.items() if one is launcher)
        with suppress(KeyError, ValueError):
            self._selector.unregister(launcher)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    return
                self._tell(process, os.waitstatus_to_exitcode(status))

    def _tell(self, process: int, code: int) -> None:
        launcher = self._processes.pop(process)
        with suppress(KeyError, ValueError):
            self._selector.unregister(launcher)
        with suppress(OSError):
            launcher.sendall(bytes([code if code >= 0 else 128 - code]))
        launcher.close()

    def _end(self) -> NoReturn:
        _terminate(self._processes)
        os._exit(0)


def _terminate(processes: Iterable[int]) -> None:
    """Ask them to end: Spark's daemon then ends its workers."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def _receive(launcher: socket.socket) -> tuple[Request | None, list[int]]:
    """A launcher's request and its standard files; no request if only a new Python can do what it asks for."""
    data, files, _, _ = socket.recv_fds(launcher, _MAX_REQUEST, 3)
    if not data:
        raise EOFError
    while not data.endswith(_END):
        part = launcher.recv(_MAX_REQUEST)
        if not part or len(data) > _MAX_REQUEST:
            raise EOFError
        data += part
    request = Request(*marshal.loads(data[: -len(_END)]))
    return request if request.is_served and len(files) == 3 else None, files


def run(request: Request) -> int:
    """Run a module as the main program; returns the exit code."""
    os.environb.clear()
    os.environb.update(request.environment)
    os.chdir(request.folder)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [entry for entry in dict.fromkeys(path) if entry and entry not in sys.path]
    _, module, *rest = request.arguments
    sys.argv = [module, *rest]
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")  # the module is imported already
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    return 0


def main() -> NoReturn:
    """The arguments are the numbers of two files: the listening socket, and the pipe from the parent."""
    listener, life = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    preload("pyspark.worker")
    for module in MODULES:
        importlib.import_module(module)
    if thread_count() > 1:  # a fork would have one of them only
        sys.exit(f"threads were started by one of {', '.join((*MODULES, *PRELOADED_MODULES))}")
    gc.collect()
    gc.freeze()  # memory shared with the forked processes stays shared
    ForkServer(listener, life).serve()


if __name__ == "__main__":
    main()
