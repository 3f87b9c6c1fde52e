"""No wait without a limit: an endless wait of one thread in a server becomes the wait of all.

Checked in `control`, `serve` and `views`, where clients share locks, queues and threads. Locks are `WatchedLock`s,
which report long waits and end them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
CHECKED = ("control", "serve", "views")
WITHOUT_LIMIT = ("wait", "join", "result", "acquire", "get")
"""Methods that wait for ever if they are called without an argument."""
LOCKS = ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")

GUARD = "guards a collection; nothing blocks while it is held"
OWN_PROCESS = "in a worker process, whose parent ends it"
CONTEXT = "of a context variable"
DONE = "of a future that is done"
ALLOWED = {
    ("control/alerts/delivery.py", "NotifierThread._run", "join"): "a thread of its own; sending has a time-out",
    ("control/workers/process.py", "WorkerProcess._send_all", "get"): "a thread of its own, for what is to be sent",
    ("control/queries/failure_events.py", "FailureEvents._write_all", "wait"): "a thread of its own, without events",
    ("control/queries/reconciler.py", "Reconciler.stop", "join"): "ends with the start that is in progress",
    ("serve/http/server.py", "Server.running", "join"): "ends at `SHUTDOWN_GRACE`",
    ("serve/ksql/insert_stream.py", "_at_hand", "result"): DONE,
    ("serve/console/push_subscriptions.py", "push_subscription", "result"): DONE,
    ("control/serving/prepared.py", "PreparedQueryCache.__init__", "Lock"): GUARD,
    ("control/serving/push.py", "PushSubscription.__init__", "Lock"): GUARD,
    ("control/queries/stopping.py", "QueryStop.__init__", "Lock"): GUARD,
    ("control/queries/ticks.py", "Ticker.__init__", "Condition"): GUARD,
    ("control/workers/process.py", "WorkerProcess.__init__", "Lock"): GUARD,
    ("control/serving/pull_worker.py", "main", "get"): OWN_PROCESS,
    ("control/serving/pull_workers.py", "PullWorkers.__init__", "Lock"): GUARD,
    ("control/serving/pull_workers.py", "_Execution.__init__", "Lock"): GUARD,
    ("control/serving/result_spool.py", "SpoolBudget.__init__", "Lock"): GUARD,
    ("control/serving/result_spool.py", "ResultSpool.__init__", "Condition"): "of one query: its worker and its reader",
    ("control/serving/worker_slots.py", "WorkerSlots.__init__", "Lock"): GUARD,
    ("control/workers/worker.py", "Worker.__init__", "Lock"): OWN_PROCESS,
    ("control/workers/worker.py", "QueryThread.__init__", "Lock"): OWN_PROCESS,
    ("serve/admission/quotas.py", "Usage.__init__", "Lock"): GUARD,
    ("serve/admission/quotas.py", "charge_rows", "get"): CONTEXT,
    ("serve/admission/quotas.py", "open_stream", "get"): CONTEXT,
    ("serve/api/log_io/idempotent_producers.py", "IdempotentProducers.__init__", "Lock"): GUARD,
    ("views/materializer_loop.py", "MaterializerLoop.__init__", "Condition"): "only signals that a view has changed",
    ("serve/api/streaming/append_signal.py", "AppendSignal.__init__", "Lock"): GUARD,
}
"""Waits that need no limit, with the reason."""
Place = tuple[str, str]
"""A function, and the method or lock that it calls."""


class Waits(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Place] = []
        self._inside: list[str] = []
        self._awaited: set[ast.AST] = set()

    def visit(self, node: ast.AST) -> None:
        named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if named:
            self._inside.append(node.name)
        if isinstance(node, ast.Await):
            self._awaited.add(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            self._check(node, node.func)
        self.generic_visit(node)
        if named:
            self._inside.pop()

    def _check(self, call: ast.Call, called: ast.Attribute) -> None:
        is_endless = called.attr in WITHOUT_LIMIT and not call.args and not call.keywords
        of_threading = isinstance(called.value, ast.Name) and called.value.id == "threading"
        if (is_endless and call not in self._awaited) or (of_threading and called.attr in LOCKS):
            self.found.append((".".join(self._inside), called.attr))


def waits_of(text: str) -> list[Place]:
    waits = Waits()
    waits.visit(ast.parse(text))
    return waits.found


def _waits() -> Iterator[tuple[str, str, str]]:
    for package in CHECKED:
        for path in sorted((SOURCE / package).rglob("*.py")):
            for place, what in waits_of(path.read_text()):
                yield str(path.relative_to(SOURCE)), place, what


def test_no_wait_in_a_server_is_without_a_limit() -> None:
    found = set(_waits())
    assert found - ALLOWED.keys() == set(), "give it a time-out, or use WatchedLock"
    assert ALLOWED.keys() - found == set(), "these are gone: remove them from the list"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(e): e.wait()", [("f", "wait")]),
        ("class A:\n def f(self): self.thread.join()", [("A.f", "join")]),
        ("lock = threading.RLock()", [("", "RLock")]),
        ("def f(e): e.wait(5); e.wait(timeout=5)", []),
        ("async def f(e): await e.wait()", []),
        ("def f(d): d.get('key'); ','.join(d)", []),
    ],
)
def test_what_counts_as_an_endless_wait(text: str, found: list[Place]) -> None:
    assert waits_of(text) == found
