"""Which failed queries restart, when, and how often."""

from __future__ import annotations

import pytest

from headrace.control.queries.restart_policy import (
    SERVER_POLICY,
    FailureTracker,
    QueryFailure,
    RestartPolicy,
    script_policy,
)
from headrace.errors import (
    BadQuery,
    HeadraceError,
    LogBusy,
    OutOfMemory,
    ProcessLost,
    PythonWorkerLost,
    RecordFailed,
    UnexpectedFailure,
)

BUSY, LOST, MEMORY, BAD = LogBusy("busy"), ProcessLost("lost"), OutOfMemory("memory"), BadQuery("bad")
ODD, WORKER, RECORD = UnexpectedFailure("odd"), PythonWorkerLost("lost"), RecordFailed("13")


@pytest.mark.parametrize(
    ("policy", "error", "pauses"),
    [
        (SERVER_POLICY, BUSY, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
        (SERVER_POLICY, LOST, [1.0, 2.0]),
        (SERVER_POLICY, BAD, [None, None]),
        (SERVER_POLICY, ODD, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 20]),
        (SERVER_POLICY, WORKER, [1.0, 2.0]),
        (SERVER_POLICY, RECORD, [None]),
        (script_policy(isolates_failures=False), ODD, [0.0, 0.0, None]),
        (script_policy(isolates_failures=True), LOST, [0.0, 0.0, 0.0, 0.0, 0.0, None]),
        (script_policy(isolates_failures=False), WORKER, [*[0.0] * 7, None]),
        (script_policy(isolates_failures=True), MEMORY, [0.0, None]),
        (script_policy(isolates_failures=False), MEMORY, [None]),
        (script_policy(isolates_failures=False), BUSY, [None]),
    ],
)
def test_pauses_of_a_policy(policy: RestartPolicy, error: HeadraceError, pauses: list[float | None]) -> None:
    assert [policy.pause(error, failures) for failures in range(1, len(pauses) + 1)] == pauses


def test_only_failures_in_a_row_count() -> None:
    tracker = FailureTracker(SERVER_POLICY, lambda: 100.0)
    assert tracker.record("q", BUSY, made_progress=False) == QueryFailure(BUSY, 1, 101.0)
    assert tracker.record("q", LOST, made_progress=False) == QueryFailure(LOST, 2, 102.0)
    assert tracker.record("q", BUSY, made_progress=True) == QueryFailure(BUSY, 1, 101.0)
    assert tracker.record("other", BUSY, made_progress=False).count == 1


def test_a_failed_query_is_blocked_until_its_restart() -> None:
    now = [0.0]
    tracker = FailureTracker(SERVER_POLICY, lambda: now[0])
    assert not tracker.blocks("q")
    tracker.record("q", BUSY, made_progress=False)
    assert tracker.blocks("q")
    now[0] = 1.0
    assert not tracker.blocks("q")


def test_a_query_without_a_restart_is_blocked_until_its_failure_is_forgotten() -> None:
    tracker = FailureTracker(SERVER_POLICY, lambda: 1e9)
    tracker.record("q", BAD, made_progress=False)
    assert tracker.blocks("q")
    tracker.forget("q")
    assert not tracker.blocks("q")
    assert tracker.record("q", BAD, made_progress=False).count == 1
