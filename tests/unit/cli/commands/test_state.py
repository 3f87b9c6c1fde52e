"""`headrace state`: checkpoints are listed and removed; the tests on Spark cover their content."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.io.sink import EmbeddedBatchCommitter
from headrace.engine.io.written_output import output_note
from headrace.engine.recovery import FROM_OUTPUT, REPROCESS, Decision, decision_of
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.ksql_strategies import planned
from tests.unit.cli.conftest import Program


@pytest.fixture
def left(headrace: Program, tmp_path: Path) -> Path:
    """The folder of a query that has begun."""
    headrace("topic", "create", "s")
    folder = tmp_path / "data" / "checkpoints" / "orders" / "CTAS_O_0"
    query = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")
    Checkpoint(folder).open(query, "record", 2, ("s",))
    return folder


def test_checkpoints_are_listed_and_removed(headrace: Program, left: Path) -> None:
    (row,) = headrace("state", "list", "--json").json
    assert (row["query"], row["execution_mode"], row["batches"], row["problem"]) == (
        "orders/CTAS_O_0",
        "record",
        0,
        None,
    )
    assert "orders/CTAS_O_0" in headrace("state", "list").out
    assert headrace("state", "remove", "ctas_o_0", "--yes").err == "removed the checkpoint of query orders/CTAS_O_0\n"
    assert not left.exists()
    assert headrace("state", "list").err == "there are no checkpoints\n"
    assert "unknown-query" in headrace("state", "remove", "CTAS_O_0", "--yes", code=1).err


def test_a_decision_is_stored_for_the_next_start(headrace: Program, left: Path) -> None:
    assert "Aborted" in headrace("state", "recover", "orders/CTAS_O_0", "--reprocess", code=1).err
    assert decision_of(left) is None
    assert "start over" in headrace("state", "recover", "orders/CTAS_O_0", "--reprocess", "--yes").err
    assert decision_of(left) == Decision(REPROCESS)
    assert "continue after" in headrace("state", "recover", "orders/CTAS_O_0", "--resume-from-output").err
    assert decision_of(left) == Decision(FROM_OUTPUT)


@pytest.mark.parametrize("query", ["CTAS_O_0", "../x/CTAS_O_0", "orders/../../x", "orders/.", ".x/CTAS_O_0"])
def test_a_decision_names_a_query_of_a_program(headrace: Program, left: Path, query: str) -> None:
    assert "PROGRAM/ID" in headrace("state", "recover", query, "--resume-from-output", code=2).err
    assert "choose one" in headrace("state", "recover", "orders/CTAS_O_0", code=2).err


def test_a_decision_about_an_unknown_query_is_refused(headrace: Program, left: Path) -> None:
    refused = headrace("state", "recover", "orders/CTAS_0_0", "--resume-from-output", code=1).err
    assert "unknown-query" in refused
    assert 'did you mean "orders/CTAS_O_0"?' in refused
    assert decision_of(left.with_name("CTAS_0_0")) is None
    assert "state list" in headrace("state", "recover", "x/y", "--resume-from-output", code=1).err


def test_a_decision_about_a_query_whose_checkpoint_is_gone_is_stored(headrace: Program, left: Path) -> None:
    manifest = Checkpoint(left).manifest
    assert manifest is not None
    with EmbeddedLog(headrace.data) as log:
        topic = log.create_topic("o")
        log.append([Append("o", from_records([Record(b"row")]))])
        note = output_note("CTAS_O_0", topic, None, "orders", has_state=True)
        EmbeddedBatchCommitter(log, manifest.run, lambda _: note).commit(0, [])
    shutil.rmtree(left)
    headrace("state", "recover", "orders/CTAS_O_0", "--resume-from-output")
    assert decision_of(left) == Decision(FROM_OUTPUT)
    for unknown in ("server/CTAS_O_0", "orders/CTAS_P_0"):
        refused = headrace("state", "recover", unknown, "--resume-from-output", code=1).err
        assert 'did you mean "orders/CTAS_O_0"?' in refused
