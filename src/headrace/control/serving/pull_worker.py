"""A pull worker: executes one heavy pull query after the other, with hard limits of the operating system.

    python -m headrace.control.serving.pull_worker

`pull_workers` starts it in the server, and ends it when a query must end (see `pull_protocol`). When its input ends,
the server is gone, and the worker exits at once, whatever it is doing.
"""

from __future__ import annotations

import os
import pickle
import queue
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.pull_execution import execute_on_stream, execute_on_view
from headrace.control.serving.pull_protocol import HEADER, FrameType, PullRequest
from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.errors import HeadraceError, PullQueryKilled, QueryFailed
from headrace.log import open_log
from headrace.plan.actions import TransientSelect
from headrace.plan.relations import Kind
from headrace.plan.serialization import load_plan
from headrace.settings import Settings
from headrace.views.pull_query import PullQuery
from headrace.views.stores import open_store

_FRAME_BYTES = 256 << 10
_NICENESS = 5  # the server itself comes first


def main() -> NoReturn:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's function prints is no frame
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError):  # if the machine runs out of memory, the worker ends and not the server
        Path("/proc/self/oom_score_adj").write_text("500")
    requests: queue.SimpleQueue[PullRequest] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(os.fdopen(0, "rb"), requests), daemon=True).start()
    _limit_memory(int(os.environ["HEADRACE_PULL_MEMORY"]))
    while True:
        request = requests.get()
        _limit_cpu(request.settings.query.pull_max_cpu)
        _answer(request, out)


def _receive(pipe: BinaryIO, requests: queue.SimpleQueue[PullRequest]) -> None:
    with suppress(EOFError, OSError):
        while True:
            requests.put(pickle.load(pipe))
    os._exit(1)


def _limit_memory(limit: int) -> None:
    """Limits what is added to the address space of the process, where the system says how large it is."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        if limit:
            allowed = pages * resource.getpagesize() + limit
            resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu(limit: timedelta) -> None:
    """The system ends the process (SIGXCPU) when the query has used that much processor time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = time.process_time()
    allowed = ceil(used + limit.total_seconds()) if limit else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))


def _answer(request: PullRequest, out: BinaryIO) -> None:
    try:
        _execute(request, out)
        _send(out, FrameType.END)
    except HeadraceError as error:
        _send(out, FrameType.FAILED, error.as_dict())
    except MemoryError:
        _send(out, FrameType.FAILED, _too_much_memory(request.settings).as_dict())
        out.flush()
        os._exit(1)  # what the query has allocated is not all given back; the server starts another worker
    except Exception as error:  # the query's, which must not end the worker without a word
        failure = QueryFailed(f"the pull query failed: {error!r}", fix="see the server's log")
        _send(out, FrameType.FAILED, failure.as_dict())


def _execute(request: PullRequest, out: BinaryIO) -> None:
    select: TransientSelect = load_plan(request.select, request.setup)
    settings, limits = request.settings, QueryLimits(request.settings)
    if select.query.sources[0].relation.kind is Kind.STREAM:
        result = execute_on_stream(_log(settings), select, limits)
        _send(out, FrameType.BEGIN)
        _send_rows(out, result.batches)
        return
    assert request.table is not None
    pull = PullQuery(select.query, order=select.order, limit=select.limit)
    view = _store(settings).reader(*request.table)
    with execute_on_view(pull, ResultRowWriter(select), view, limits) as result:
        _send(out, FrameType.BEGIN, result.state)
        _send_rows(out, result.batches)


def _send_rows(out: BinaryIO, batches: Iterator[list[ResultRow]]) -> None:
    """In frames of no more than `_FRAME_BYTES`, or one row: the server has several of them in memory."""
    for batch in batches:
        begin = size = 0
        for end, row in enumerate(batch):
            if size + len(row.text) > _FRAME_BYTES and end > begin:
                _send(out, FrameType.ROWS, batch[begin:end])
                begin, size = end, 0
            size += len(row.text)
        _send(out, FrameType.ROWS, batch[begin:])


def _send(out: BinaryIO, frame: FrameType, content: Any = None) -> None:
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    out.write(HEADER.pack(frame.value, len(data)))
    out.write(data)
    out.flush()


@cache
def _store(settings: Settings) -> Any:
    return open_store(settings)


@cache
def _log(settings: Settings) -> Any:
    return open_log(settings.replace(storage_maintenance_interval=timedelta(0)))


def _too_much_memory(settings: Settings) -> PullQueryKilled:
    return PullQueryKilled(
        f"the query needs more than {settings.query.pull_max_memory >> 20} MB of memory",
        fix="select fewer rows with WHERE or LIMIT, or raise the setting query.pull_max_memory",
    )


if __name__ == "__main__":
    main()
