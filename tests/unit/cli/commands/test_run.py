"""`headrace run` as far as it needs no Spark: scripts without queries, refusals, and what is shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.io import progress
from headrace.control.admin.lock import ProgramLock
from headrace.control.queries.metrics import QueryMetrics
from headrace.engine.checkpoint import Checkpoint
from tests.ksql_strategies import planned
from tests.unit.cli.conftest import Program

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');\n"
ROWS = (
    "INSERT INTO clicks VALUES (1, '/');\nINSERT INTO clicks VALUES (1, '/');\nINSERT INTO clicks VALUES (2, '/b');\n"
)
Script = Callable[..., Path]


@pytest.fixture
def script(headrace: Program, tmp_path: Path) -> Script:
    def write(text: str) -> Path:
        path = tmp_path / "a.ksql"
        path.write_text(text)
        return path

    return write


def test_a_script_without_queries_inserts_its_rows_once(headrace: Program, script: Script) -> None:
    said = headrace("run", script(CLICKS + ROWS), "--until-idle").err
    assert said.splitlines()[-1] == "all input is processed; 0 queries; 3 rows inserted"
    said = headrace("run", script(CLICKS + ROWS), "--until-idle").err
    assert said.splitlines()[-1] == "all input is processed; 0 queries; 0 rows inserted, 3 already inserted"
    assert len(headrace("consume", "clicks", "--format", "json").lines) == 3


def test_two_programs_insert_their_rows_independently(headrace: Program, script: Script) -> None:
    headrace("run", script(CLICKS + ROWS), "--until-idle")
    headrace("run", script(CLICKS + ROWS), "--until-idle", "--name", "other")
    assert len(headrace("consume", "clicks", "--format", "json").lines) == 6


def test_list_and_print_statements_write_to_standard_output(headrace: Program, script: Script) -> None:
    asked = "LIST TOPICS;\nPRINT clicks FROM BEGINNING LIMIT 2;\nLIST PROPERTIES;\n"
    said = headrace("run", script(CLICKS + ROWS + asked), "--until-idle").out
    assert " clicks      | 1          | 1\n" in said
    assert said.count("key: 1, value: ") == 2
    assert "auto.offset.reset" in said


def test_json_output_contains_the_same_answers(headrace: Program, script: Script) -> None:
    answer = headrace("run", script(CLICKS + ROWS + "LIST TOPICS;"), "--until-idle", "--json")
    listed, end = answer.lines
    assert listed["answer"]["@type"] == "kafka_topics"
    assert {name: end[name] for name in ("ended", "program", "inserted", "repeated", "queries")} == {
        "ended": "all input is processed",
        "program": "a",
        "inserted": 3,
        "repeated": 0,
        "queries": [],
    }


def test_asserts_are_checked_against_the_log(headrace: Program, script: Script) -> None:
    held = "ASSERT VALUES clicks (id, page) VALUES (1, '/');\nASSERT TOPIC clicks;\n"
    held += "ASSERT STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');\n"
    assert "; 3 asserts held" in headrace("run", script(CLICKS + ROWS + held), "--until-idle").err
    failing = held + "ASSERT VALUES clicks (id, page) VALUES (1, '/x');\n"
    said = headrace("run", script(CLICKS + ROWS + failing), "--until-idle", code=1).err
    assert "assert-failed: Expected record does not match actual, record 1 of CLICKS" in said
    assert "a.ksql:8:1" in said


def test_a_program_stops_after_its_time_limit(headrace: Program, script: Script) -> None:
    said = headrace("run", script(CLICKS), "--seconds", "0").err
    assert said.splitlines()[-1] == "stopped after 0 s; 0 queries"


# -- refusals -------------------------------------------------------------------------------------------------------


def test_all_errors_are_reported_before_anything_runs(headrace: Program, script: Script) -> None:
    said = headrace("run", script(CLICKS + "SELECT * FROM clicks EMIT CHANGES;\nCREATE STREM x;"), code=1).err
    assert "unsupported: a script cannot contain a SELECT that returns rows\n  at " in said
    assert "a.ksql:2:1" in said
    assert "fix: write CREATE STREAM ... AS" in said
    assert "syntax-error" in said
    assert not headrace.data.exists()


def test_a_program_that_already_runs_is_refused(headrace: Program, script: Script) -> None:
    headrace("topic", "create", "clicks")
    with ProgramLock(headrace.data / "checkpoints" / "a", "a"):
        said = headrace("run", script(CLICKS), "--until-idle", code=1).err
    assert f'program-running: program "a" is already running: process {os.getpid()}' in said


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b"])
def test_a_program_name_must_be_a_valid_folder_name(headrace: Program, script: Script, name: str) -> None:
    headrace("run", script(CLICKS), f"--name={name or ' '}", code=2)


def test_a_folder_that_is_not_a_data_folder_is_refused(headrace: Program, script: Script) -> None:
    headrace.data.mkdir()
    (headrace.data / "letter.txt").write_text("dear")
    assert "not-a-data-folder" in headrace("run", script(CLICKS), code=1).err


# -- what is shown --------------------------------------------------------------------------------------------------

BEHIND = QueryMetrics(
    "CTAS_T_0",
    "T",
    "record",
    "running",
    2_000,
    12,
    1_000.0,
    60_000,
    0.25,
    60.0,
    2,
    {"total": 431},
    7,
    1_000,
    1,
    {"late-record": 1},
)


def test_json_names_the_metrics_of_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.JsonProgress().showing() as show:
        show([BEHIND])
    (query,) = json.loads(capsys.readouterr().out)["queries"]
    named = {name: query[name] for name in ("execution_mode", "lag", "catch_up", "state_rows", "dead_letters")}
    assert named == {
        "execution_mode": "record",
        "lag": 60_000,
        "catch_up": 0.25,
        "state_rows": 7,
        "dead_letters": {"late-record": 1},
    }


def test_a_query_is_printed_as_one_line() -> None:
    assert progress.status_line(BEHIND) == (
        "CTAS_T_0, record mode: 1,000 records/s, lag 60,000 (25 %, 1 min 00 s left), 2,000 read, 12 written, "
        "state 7, batch 431 ms, event time 1970-01-01T00:00:01.000Z, dead letters 1 (1 late-record)"
    )


def test_queries_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    Console(width=160, color_system=None).print(
        progress.status_table([BEHIND, QueryMetrics("Q", "Q", "native", "paused")])
    )
    shown = capsys.readouterr().out
    assert "25 %, 1 min 00 s left" in shown
    assert "Q (paused)" in shown
    assert "1 (1 late-record)" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_of_queries_fits_the_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    Console(width=width, color_system=None).print(progress.status_table([BEHIND], width))
    header, row = capsys.readouterr().out.splitlines()[:2]
    assert header.split()[:2] == ["query", "mode"]
    assert "CTAS_T_0" in row  # whole: nothing is folded
    assert "1,000" in row
    assert "60,000" in row
    assert ("late-record" in row) == (width >= 80)


@pytest.mark.parametrize(("seconds", "text"), [(12.4, "12 s"), (200, "3 min 20 s"), (3900, "1 h 05 min")])
def test_durations_are_printed_in_readable_units(seconds: float, text: str) -> None:
    assert progress.duration_text(seconds) == text


def test_state_show_refuses_a_native_query(headrace: Program) -> None:
    query = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")
    Checkpoint(headrace.data / "checkpoints" / "a" / query.id).open(query, "native", 1, ("s",))
    assert "runs in native mode" in headrace("state", "show", query.id, code=1).err
