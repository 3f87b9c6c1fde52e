"""`check`, `explain` and `test`: KSQL scripts without a server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Program

EXAMPLES = Path(__file__).parents[4] / "examples" / "ksql"
CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', value_format='JSON');\n"
COUNTS = "CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;\n"
CASE = {
    "name": "twice",
    "inputs": [{"source": "clicks", "key": 1, "value": {"page": "/"}}] * 2,
    "outputs": [{"source": "counts", "value": {"N": 1}}, {"source": "counts", "value": {"N": 2}}],
}


@pytest.fixture
def example(headrace: Program, tmp_path: Path) -> Path:
    """The examples, in the working folder."""
    return Path(shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True))


@pytest.fixture
def script(headrace: Program, tmp_path: Path) -> Path:
    path = tmp_path / "a.ksql"
    path.write_text(CLICKS + COUNTS)
    return path


def cases(folder: Path, *given: object) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(given))
    return path


# -- check ----------------------------------------------------------------------------------------------------------


def test_a_valid_script_has_no_errors(headrace: Program, example: Path) -> None:
    answer = headrace("check", "pageviews.ksql")
    assert (answer.out, answer.err) == ("", "4 statements, no errors\n")
    assert headrace("check", "pageviews.ksql", "--json").json == {"statements": 4, "following": 0, "errors": []}


def test_all_errors_are_shown(headrace: Program, script: Path) -> None:
    script.write_text(
        CLICKS
        + "CREATE STREAM a AS SELECT id, pge FROM clicks;\nCREATE STREAM b AS SELECT * FROM a;\nCREATE STREM c;\n"
    )
    assert headrace("check", "a.ksql", code=1).err.splitlines() == [
        "column-not-found: SELECT column 'PGE' cannot be resolved.",
        "  at a.ksql:2:31",
        "    CREATE STREAM a AS SELECT id, pge FROM clicks;",
        "                                  ^^^",
        '  fix: did you mean "PAGE"?',
        'syntax-error: unexpected "STREM" after "CREATE"',
        "  at a.ksql:4:8",
        "    CREATE STREM c;",
        "           ^^^^^",
        "  fix: did you mean STREAM?",
        "4 statements, 2 errors; 1 statement was not checked: it needs a rejected statement",
    ]


def test_errors_are_printed_as_json(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + "SELECT pge FROM clicks EMIT CHANGES;")
    answer = headrace("--json", "check", "a.ksql", code=1)
    assert answer.err == ""
    (error,) = answer.json["errors"]
    assert {name: error[name] for name in ("code", "where", "line", "column", "fix")} == {
        "code": "column-not-found",
        "where": "a.ksql:2:8",
        "line": 2,
        "column": 8,
        "fix": 'did you mean "PAGE"?',
    }
    assert error["excerpt"].endswith("\n       ^^^")


def test_brackets_in_a_line_are_printed_as_text(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + "SELECT ARRAY[pge], '[red]' FROM clicks EMIT CHANGES;")
    assert "    SELECT ARRAY[pge], '[red]' FROM clicks EMIT CHANGES;" in headrace("check", "a.ksql", code=1).err


def test_a_missing_file_is_a_usage_error(headrace: Program) -> None:
    headrace("check", "nowhere.ksql", code=2)


# -- explain --------------------------------------------------------------------------------------------------------


def test_explain_describes_each_statement(headrace: Program, example: Path) -> None:
    said = headrace("explain", "asserts.ksql").out
    lines = [line for line in said.splitlines() if line.startswith("-- ")]
    assert [re.sub(r" \(.*\) ", " ", line) for line in lines[:3]] == [
        '-- pageviews.ksql:7:1: declare stream PAGEVIEWS over topic "pageviews_topic" (JSON)',
        '-- pageviews.ksql:10:1: declare table USERS over topic "user_topic" (JSON)',
        '-- pageviews.ksql:14:1: create stream REGIONAL over topic "REGIONAL" (JSON), filled by query CSAS_REGIONAL_0',
    ]
    assert "\nsink REGIONAL -> stream (USERID string key, " in said
    assert "write a row to USERS" in said
    assert "expect a record of VIEWS_PER_MINUTE" in said


def test_explain_describes_every_kind_of_statement(headrace: Program, script: Path) -> None:
    script.write_text(
        CLICKS
        + COUNTS
        + "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');\n"
        + "CREATE STREAM copy AS SELECT * FROM clicks;\nINSERT INTO copy SELECT * FROM clicks;\n"
        + "CREATE OR REPLACE STREAM copy AS SELECT * FROM clicks WHERE id > 0;\nDELETE FROM t WHERE id = 1;\n"
        + "SET 'auto.offset.reset' = 'earliest';\nSELECT * FROM clicks EMIT CHANGES;\nDROP TABLE counts DELETE TOPIC;\n"
    )
    does = [part["does"].rpartition(") ")[2] for part in headrace("explain", "a.ksql", "--json").json]
    assert does[4:] == [
        "fill COPY also by query INSERTQUERY_2",
        'create stream COPY over topic "COPY" (JSON), filled by query CSAS_COPY_1 instead of CSAS_COPY_1',
        "delete rows of T",
        "set property",
        "push query",
        "drop table COUNTS and its topic",
    ]


RUNS = """
CREATE STREAM big AS SELECT * FROM clicks WHERE id > 5;
CREATE STREAM pages AS SELECT id, REPLACE(page, 'a', 'b') AS page FROM clicks PARTITION BY id;
CREATE TABLE again AS SELECT * FROM counts;
CREATE TABLE others AS SELECT n, COUNT(*) AS m FROM counts GROUP BY n;
SET 'ksql.streams.cache.max.bytes.buffering' = '0';
CREATE TABLE every AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
SELECT * FROM clicks EMIT CHANGES;
"""


def ways(explained: list[dict]) -> dict[str, str]:
    return {part["query"].rpartition("_")[0][5:]: part["runs"]["execution_mode"] for part in explained if part["runs"]}


def test_explain_shows_the_execution_mode_of_each_query(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + COUNTS + RUNS)
    explained = headrace("explain", "a.ksql", "--json").json
    assert ways(explained) == {
        "COUNTS": "native",
        "BIG": "native",
        "PAGES": "record",
        "AGAIN": "record",
        "OTHERS": "record",
        "EVERY": "record",
    }
    runs = {
        "execution_mode": "native",
        "reasons": [],
        "emits": "the last change of each key in a batch",
        "refused": False,
    }
    assert explained[1]["runs"].items() >= {**runs, "delivery": "exactly once"}.items()
    said = [line[5:] for line in headrace("explain", "a.ksql").out.splitlines() if line.startswith("--   ")]
    assert said[0] == (
        "runs natively, by Spark's own operators; sends the last change of each key in a batch; delivered exactly once"
    )
    assert said[1] == "by Arrow, while it reads: the first step of GROUP BY"
    assert "by Arrow, while it reads: WHERE" in said
    assert said[-2:] == [
        "runs record by record, in 4 key groups; sends every change; delivered exactly once",
        "not natively: every change is to be sent, and natively those of a batch are merged",
    ]
    assert "one key group only: GROUP BY brings rows of several keys together" in said
    assert f"//   {said[1]}\ndigraph" in headrace("explain", "a.ksql", "--graph").out
    script.write_text(CLICKS + COUNTS + "ASSERT VALUES counts (page, n) VALUES ('/', 1);\n" + RUNS.splitlines()[1])
    assert ways(headrace("explain", "a.ksql", "--json").json) == {"COUNTS": "record", "BIG": "native"}


def test_the_execution_mode_depends_on_the_settings(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + COUNTS + "CREATE TABLE again AS SELECT * FROM counts;")
    config = script.parent / "headrace.toml"

    def told(**settings: object) -> list[str]:
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        config.write_text("[query]\n" + "".join(lines))
        return [line[5:] for line in headrace("explain", "a.ksql").out.splitlines() if line.startswith("--   ")]

    assert told(execution_mode="record", key_groups=7)[:2] == [
        "runs record by record, in 7 key groups; sends the last change of each key in a batch; delivered exactly once",
        'not natively: the setting "query.execution_mode" is record',
    ]
    assert (
        told(emit="per-record")[0]
        == "runs record by record, in 4 key groups; sends every change; delivered exactly once"
    )
    assert told(execution_mode="native")[2:] == [
        "is refused",
        "not natively: what a table held before is known record by record",
    ]
    for name in ("sink_topics", "emit", "execution_mode"):
        config.write_text(f'[query]\n{name} = "other"\n')
        error = headrace("explain", "a.ksql", code=1).err
        assert error.startswith(f'bad-setting: setting {name} in section [query] cannot be "other"')


def test_the_execution_mode_depends_on_the_existing_topics(headrace: Program, script: Path) -> None:
    window = "CREATE TABLE w AS SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY page;"
    script.write_text(CLICKS + window)
    assert "not natively: which records have a time that counts is known once they are decoded" in (
        headrace("explain", "a.ksql").out
    )
    headrace("topic", "create", "clicks", "--schema", "id int key, page string")
    assert "runs natively" in headrace("explain", "a.ksql").out


def test_explain_prints_a_graphviz_graph(headrace: Program, example: Path) -> None:
    said = headrace("explain", "pageviews.ksql", "--graph").out
    assert said.count("digraph plan {") == said.count("\n}") == 2
    assert "// pageviews.ksql:14:1: CSAS_REGIONAL_0\n" in said
    assert "--" not in said.replace("->", "")


def test_a_script_with_errors_is_not_explained(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + "SELECT pge FROM clicks EMIT CHANGES;")
    answer = headrace("explain", "a.ksql", code=1)
    assert answer.out == ""
    assert answer.err.startswith("column-not-found: ")


# -- test -----------------------------------------------------------------------------------------------------------


def test_the_example_cases_pass(headrace: Program, example: Path) -> None:
    assert headrace("test", "pageviews.ksql", "cases.json").out == "2 passed, 0 failed\n"
    assert headrace("test", "asserts.ksql").out == "5 passed, 0 failed\n"


def test_differences_are_shown_and_counted(headrace: Program, script: Path) -> None:
    wrong = CASE | {"name": "thrice", "outputs": [{"source": "counts", "value": {"N": n}} for n in (1, 3, 4)]}
    answer = headrace("test", "a.ksql", cases(script.parent, CASE, wrong), code=1)
    assert answer.err.splitlines() == [
        "FAILED thrice",
        'result-differs: expected {"N": 3}, got {"N": 2}',
        "  at COUNTS[1].value",
        'result-differs: expected {"N": 4}, got no record',
        "  at COUNTS[2]",
    ]
    assert answer.out == "1 passed, 1 failed\n"


def test_differences_are_printed_as_json(headrace: Program, script: Path) -> None:
    wrong = CASE | {"outputs": [{"source": "counts", "value": {"N": 1}}]}
    found = headrace("test", "a.ksql", cases(script.parent, wrong), "--json", code=1).json
    assert (found["passed"], found["failed"]) == (0, 1)
    assert [(d["case"], d["where"]) for d in found["differences"]] == [("twice", "COUNTS[1]")]


def test_a_failed_assert_is_reported(headrace: Program, script: Path) -> None:
    script.write_text(
        CLICKS
        + COUNTS
        + "INSERT INTO clicks (id, page) VALUES (1, '/');\n"
        + "ASSERT TOPIC clicks;\nASSERT NOT EXISTS TOPIC orders;\n"
        + "ASSERT VALUES counts (page, n) VALUES ('/', 2);\n"
    )
    answer = headrace("test", "a.ksql", code=1)
    assert answer.out == "2 passed, 1 failed\n"
    assert "assert-failed: " in answer.err
    assert "  at a.ksql:6:1\n" in answer.err


def test_script_errors_are_reported_before_differences(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + "SELECT pge FROM clicks EMIT CHANGES;")
    answer = headrace("test", "a.ksql", cases(script.parent, CASE), code=1)
    assert answer.out == ""
    assert "a.ksql:2:8" in answer.err


def test_statements_that_list_or_describe_print_their_answers(headrace: Program, script: Path) -> None:
    script.write_text(CLICKS + COUNTS + "LIST TABLES;\nPRINT counts;\nPAUSE ctas_counts_0;\n")
    told = headrace("test", "a.ksql", code=1)
    assert told.out.splitlines()[:3] == [
        "LIST TABLES;",
        "",
        " Table Name | Kafka Topic | Key Format | Value Format | Windowed",
    ]
    assert told.out.endswith("0 passed, 1 failed\n")
    assert "unknown-topic" in told.err
    script.write_text(CLICKS + COUNTS + "LIST TABLES;\nPRINT COUNTS;\nPAUSE ctas_counts_0;\n")
    answers = headrace("test", "a.ksql", "--json").json["answers"]
    assert [answer["@type"] for answer in answers] == ["tables", "print"]
    explained = headrace("explain", "a.ksql").out
    assert "-- a.ksql:3:1: list or describe: tables\n" in explained
    assert "-- a.ksql:5:1: pause CTAS_COUNTS_0" in explained


def test_a_script_without_expectations_is_refused(headrace: Program, script: Path) -> None:
    assert headrace("test", "a.ksql", code=1).err.startswith("bad-test-cases: a.ksql has no ASSERT")


def test_invalid_json_cases_are_refused(headrace: Program, script: Path) -> None:
    (script.parent / "cases.json").write_text("[{")
    assert headrace("test", "a.ksql", "cases.json", code=1).err.startswith("bad-test-cases: ")


def test_check_explain_and_test_do_not_import_spark(example: Path) -> None:
    run = (
        "import sys\n"
        "from headrace.cli import app\n"
        "try: app(['test', 'pageviews.ksql', 'cases.json'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'pyspark', 'pandas', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", run], cwd=example, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
