"""Several workers that start together, as threads or as processes, and what each of them brought home."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol


class Gate(Protocol):
    """Opens when all workers have come to it."""

    def wait(self, timeout: float | None = None) -> int: ...


_PATIENCE = 120.0  # seconds; sixteen fresh interpreters on two cores need their time
_gate: Gate | None = None


def run_workers(work: Callable[..., Any], count: int, *given: Any, processes: bool) -> list[Any]:
    """`work(index, gate, *given)` in each of `count` workers; their results in order, or the first error.

    Processes are spawned, not forked: no open log crosses a fork. `work` must be a function of a module.
    """
    with _pool(count, processes) as pool:
        futures = [pool.submit(_enter, work, index, *given) for index in range(count)]
        errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=_is_follow_up):
        raise error
    return [future.result() for future in futures]


def _is_follow_up(error: BaseException) -> bool:
    """A worker that found the gate broken only tells that another one failed."""
    return isinstance(error, threading.BrokenBarrierError)


def _pool(count: int, processes: bool) -> Executor:
    if not processes:
        return ThreadPoolExecutor(count, initializer=_meet, initargs=(threading.Barrier(count),))
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, context, initializer=_meet, initargs=(context.Barrier(count),))


def _meet(gate: Gate) -> None:
    global _gate
    _gate = gate


class _PatientGate:
    """A gate that does not wait forever for a worker that has died."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def wait(self, timeout: float | None = None) -> int:
        return self._gate.wait(timeout or _PATIENCE)


def _enter(work: Callable[..., Any], index: int, *given: Any) -> Any:
    assert _gate is not None
    try:
        return work(index, _PatientGate(_gate), *given)
    except threading.BrokenBarrierError:
        raise
    except BaseException:
        abort = getattr(_gate, "abort", None)  # let the others go instead of waiting for us
        if abort:
            abort()
        raise
