from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadTestCases
from headrace.testing import World, run_cases, run_script

SQL = """
CREATE STREAM clicks (user_id INT KEY, page STRING) WITH (kafka_topic='clicks', value_format='JSON');
CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
"""
CLICK = {"source": "clicks", "key": 1, "value": {"page": "/"}, "timestamp": 10}


def case(*outputs: dict[str, Any], name: str = "one") -> list[dict[str, Any]]:
    return [{"name": name, "inputs": [CLICK, CLICK], "outputs": list(outputs)}]


def test_a_case_with_the_expected_outputs_passes() -> None:
    first = {"source": "counts", "key": "/", "value": {"N": 1}, "timestamp": 10}
    report = run_cases(SQL, case(first, {"topic": "COUNTS", "value": {"n": 2}}))
    assert str(report) == "1 passed, 0 failed"


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ([{"source": "counts", "value": {"N": 1}}, {"source": "counts", "value": {"N": 3}}], "COUNTS[1].value"),
        ([{"source": "counts", "value": {"N": 1}}], "an unexpected record"),
        ([{"source": "counts", "value": {"N": n}} for n in (1, 2, 3)], "got no record"),
        ([{"source": "counts", "value": {"N": 1}, "key": "x"}, {"source": "counts"}], "COUNTS[0].key"),
    ],
    ids=["value", "too many", "too few", "key"],
)
def test_a_difference_names_its_place(outputs: list[dict[str, Any]], said: str) -> None:
    report = run_cases(SQL, case(*outputs))
    assert report.failed == 1
    assert said in str(report)
    assert str(report).endswith("0 passed, 1 failed")


def test_cases_can_be_the_text_of_a_file() -> None:
    report = run_cases(SQL, '[{"inputs": [], "outputs": []}]')
    assert (report.cases, report.failed) == (1, 0)


@pytest.mark.parametrize("text", ["{", '{"name": 1}', "[1]"])
def test_invalid_cases_are_refused(text: str) -> None:
    with pytest.raises(BadTestCases):
        run_cases(SQL, text)


def test_a_record_of_an_unknown_source_fails_its_case() -> None:
    report = run_cases(SQL, [{"inputs": [{"source": "nobody", "value": {}}]}])
    assert report.differences[0].error.code == "bad-test-cases"


def test_asserts_of_a_script_are_counted() -> None:
    script = (
        SQL + "INSERT INTO clicks (user_id, page) VALUES (1, '/'); ASSERT VALUES counts (page, n) VALUES ('/', {});"
    )
    assert run_script(script.format(1)).failed == 0
    (difference,) = run_script(script.format(2)).differences
    assert difference.error.code == "assert-failed"


def test_a_refused_statement_is_a_difference() -> None:
    (difference,) = run_script("CREATE STREAM x AS SELECT * FROM nobody;").differences
    assert difference.error.code == "source-not-found"


def test_a_replaced_aggregate_keeps_its_state() -> None:
    world = World()
    world.execute(SQL.replace("COUNT(*)", "COUNT(user_id)") + "INSERT INTO clicks (user_id, page) VALUES (1, '/');")
    world.execute(
        "CREATE OR REPLACE TABLE counts AS SELECT page, COUNT(user_id) AS n FROM clicks"
        " WHERE user_id > 0 GROUP BY page;"
        "INSERT INTO clicks (user_id, page) VALUES (1, '/'); INSERT INTO clicks (user_id, page) VALUES (0, '/');"
    )
    assert [entry.value for entry in world.topics["COUNTS"]] == [b'{"N":1}', b'{"N":2}']


# -- scripts --------------------------------------------------------------------------------------------------------


def test_an_invalid_timestamp_fails_the_query_only_if_configured() -> None:
    timed = SQL.replace("value_format='JSON'", "value_format='JSON', timestamp='page', timestamp_format='yyyy-MM-dd'")
    unset = run_cases(timed, [{"inputs": [CLICK]}])
    assert unset.failed == 0
    strict = run_cases(f"SET 'ksql.timestamp.throw.on.invalid' = 'true'; {timed}", [{"inputs": [CLICK]}])
    assert [difference.error.code for difference in strict.differences] == ["query-failed"]


def test_a_script_runs_another_script_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "clicks.ksql").write_text(SQL + "DEFINE expected = '1';")
    script = (
        "RUN SCRIPT 'clicks.ksql'; INSERT INTO clicks VALUES (1, '/');"
        "ASSERT VALUES counts (page, n) VALUES ('/', ${expected}); ASSERT VALUES counts (page) VALUES ('/');"
    )
    report = run_script(script, str(tmp_path / "main.ksql"))
    assert (report.cases, report.failed) == (2, 1)
    assert report.differences[0].error.where == f"{tmp_path / 'main.ksql'}:1:{script.rindex('ASSERT') + 1}"


def test_a_topic_can_be_asserted() -> None:
    assert run_script(SQL + "ASSERT TOPIC clicks; ASSERT NOT EXISTS TOPIC orders;").closing == "2 passed, 0 failed"
    (difference,) = run_script(SQL + "ASSERT TOPIC orders;").differences
    assert difference.error.code == "assert-failed"
