"""Runs several workers that start together, as threads or as processes, and collects their results."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol


class Gate(Protocol):
    """Opens when all workers are waiting at it."""

    def wait(self, timeout: float | None = None) -> int: ...


_PATIENCE = 120.0  # seconds; sixteen new interpreters on two cores start slowly
_gate: Gate | None = None


def run_workers(work: Callable[..., Any], count: int, *arguments: Any, processes: bool) -> list[Any]:
    """`work(index, gate, *arguments)` in each of `count` workers; their results in order, or the first error.

    Processes are spawned, not forked: no open log crosses a fork. `work` must be a function of a module.
    """
    with _pool(count, processes) as pool:
        futures = [pool.submit(_enter, work, index, *arguments) for index in range(count)]
        errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=_is_follow_up):
        raise error
    return [future.result() for future in futures]


def _is_follow_up(error: BaseException) -> bool:
    """Whether a worker failed only because another one did, which broke the gate."""
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
    """A gate with a time limit, in case a worker has died."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def wait(self, timeout: float | None = None) -> int:
        return self._gate.wait(timeout or _PATIENCE)


def _enter(work: Callable[..., Any], index: int, *arguments: Any) -> Any:
    assert _gate is not None
    try:
        return work(index, _PatientGate(_gate), *arguments)
    except threading.BrokenBarrierError:
        raise
    except BaseException:
        abort = getattr(_gate, "abort", None)  # so that the others do not wait for this one
        if abort:
            abort()
        raise
