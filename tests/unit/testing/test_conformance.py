"""The runner's own parts: what it prints beside the comparer's verdict, and its functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.plan.functions.signature import parse_signature
from tests.conformance import corpus_functions, ksql, verdicts

FAILURE = {"id": "aa", "file": "f.json", "name": "n", "kind": "accept", "reason": "OUT[3].value.N: expected 2, got 1"}
VERDICT = verdicts.Verdict(["aa f.json, n: why"], "1 passed, 1 failed", [FAILURE])


def test_a_known_gap_is_marked_and_counted_as_failed() -> None:
    lines, as_known = verdicts.shown(VERDICT, {"aa": {"reason": "later"}}, {"aa", "bb"})
    assert lines == ["aa f.json, n: why (known: later)", "1 passed, 1 failed"]
    assert as_known


def test_a_gap_that_passes_must_leave_the_ledger() -> None:
    lines, as_known = verdicts.shown(VERDICT, {"aa": {"reason": "x"}, "bb": {"reason": "y"}}, {"aa", "bb"})
    assert "bb passes: it must leave the ledger" in lines
    assert not as_known


def test_an_unlisted_failure_fails_the_run() -> None:
    assert not verdicts.shown(VERDICT, {}, {"aa"})[1]


def test_failures_of_one_kind_are_grouped() -> None:
    other = FAILURE | {"id": "bb", "reason": "S2[0].value.X: expected 5, got null"}
    first, *_ = verdicts.grouped([FAILURE, other])
    assert first.split() == ["2", "TOPIC.value:", "differs"]


def test_every_ledger_entry_has_a_reason() -> None:
    assert all(gap["reason"] for gap in verdicts.ledger("ksql").values())


def test_the_signatures_of_the_test_functions_can_be_read() -> None:
    corpus_functions.install()
    declared = [*corpus_functions.SCALARS, *corpus_functions.TABLES, *corpus_functions.AGGREGATES]
    assert all(parse_signature(overload.signature) for function in declared for overload in function.overloads)


def test_a_case_that_breaks_the_runner_is_its_own_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: ksql.memory.Case) -> ksql.memory.Outcome:
        raise ZeroDivisionError(case["id"])

    monkeypatch.setitem(ksql.MODES, "memory", broken)
    outcome = json.loads(ksql.outcome("memory", '{"id": "aa", "suite": "qtt", "statements": []}'))
    assert outcome["error"]["code"] == "internal"


def test_the_comparer_is_found_next_to_the_corpora(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "compare.py").touch()
    corpus = tmp_path / "corpora" / "ksql" / "public.jsonl"
    assert verdicts.comparer_of(corpus, "compare.py") == tmp_path / "tools" / "compare.py"
