"""`headrace sql` without a terminal, with a real server whose queries never start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace import cli
from tests.unit.cli.conftest import Answer
from tests.unit.control.test_node import CLICKS, COUNTS
from tests.unit.serve.ksql.test_app import address, log

__all__ = ["address", "log"]  # fixtures


class Shell:
    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, *arguments: object, code: int = 0, given: str = "") -> Answer:
        words = ["sql", "--server", self._address, *map(str, arguments)]
        result = CliRunner().invoke(cli.app, words, input=given, prog_name="headrace", catch_exceptions=False)
        assert result.exit_code == code, result.stdout + result.stderr
        return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def shell(address: str) -> Shell:
    made = Shell(address)
    assert made("--execute", CLICKS).out == "Stream created\n\n"
    return made


def test_statements_are_read_from_a_pipe(shell: Shell) -> None:
    told = shell(given="-- what is there?\nLIST STREAMS;\n\\t\nDESCRIBE clicks")
    assert " CLICKS      | clicks " in told.out
    assert " clicks      | 1 " in told.out
    assert " PAGE  | VARCHAR(STRING)" in told.out


def test_listings_are_printed_as_json_and_csv(shell: Shell) -> None:
    (topics,) = shell("--execute", "LIST TOPICS;", "--output", "json").lines
    assert topics["topics"] == [{"name": "clicks", "replicaInfo": [1]}]
    told = shell("--execute", "LIST TOPICS; DESCRIBE clicks;", "--output", "csv")
    assert told.out.splitlines() == [
        "Kafka Topic,Partitions,Partition Replicas",
        "clicks,1,1",
        "Field,Type",
        "ID,INTEGER  (key)",
        "PAGE,VARCHAR(STRING)",
    ]


def test_an_error_is_underlined_at_its_place_in_the_script(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "x.ksql"
    script.write_text("LIST STREAMS;\nCREATE STREAM y AS\n  SELECT nothing FROM clicks;\nLIST TOPICS;")
    told = shell("--file", script, code=1)
    assert "CLICKS" in told.out
    assert "Kafka Topic | Partitions" not in told.out  # behind the error nothing is done
    lines = told.err.splitlines()
    assert lines[0].startswith("column-not-found: ")
    assert lines[1].endswith("x.ksql:3:10")
    assert lines[2:4] == ["      SELECT nothing FROM clicks;", "             ^^^^^^^"]
    assert lines[4].startswith("  fix: ")
    told = shell("--execute", "DESCRIBE nothing;", "--output", "json", code=1)
    assert '"code":"source-not-found"' in told.err


PREFIX = "ksql.output.topic.name.prefix"


def test_properties_and_variables_last_for_the_session(shell: Shell) -> None:
    told = shell(
        "--execute",
        f"SET '{PREFIX}' = 'b'; DEFINE x = 'it''s'; DEFINE y = '${{x}}!'; SHOW VARIABLES; LIST PROPERTIES;",
    )
    assert " y             | it's!" in told.out
    assert any(line.split("|")[0].strip() == PREFIX for line in told.out.splitlines() if "SESSION" in line)
    told = shell(
        "--execute", f"SET '{PREFIX}' = 'b'; UNSET '{PREFIX}'; DEFINE x = 'y'; UNDEFINE x;", "--execute", "\\set"
    )
    assert told.out == ""
    told = shell("--execute", f"\\set {PREFIX} \"it's\"\nDEFINE x = 'y';\n\\set\n\\unset {PREFIX}\n\\set")
    assert told.out == f"SET '{PREFIX}' = 'it''s';\nDEFINE x = 'y';\nDEFINE x = 'y';\n"


def test_a_query_prints_its_rows(shell: Shell) -> None:
    shell("--execute", "INSERT INTO clicks VALUES (1, '/a'); INSERT INTO clicks VALUES (2, '/b');")
    told = shell("--execute", "DEFINE page = '/b'; SELECT id, page FROM clicks WHERE page = '${page}';")
    assert told.out.splitlines() == [" ID | PAGE", "-----------", "  2 | /b"]
    given = "SET 'auto.offset.reset' = 'earliest';\nSELECT id FROM clicks EMIT CHANGES LIMIT 2;"
    assert shell("--output", "csv", given=given).out == "ID\n1\n2\n"
    told = shell("--execute", "LIST TOPICS;\n  SELECT nothing FROM clicks;", code=1)
    assert "\n  at line 2:10\n      SELECT nothing FROM clicks;\n             ^^^^^^^\n" in told.err


def test_print_shows_records_of_a_topic(shell: Shell) -> None:
    shell("--execute", "INSERT INTO clicks (ROWTIME, id, page) VALUES (0, 1, 'a\nb');")
    text = "PRINT clicks FROM BEGINNING LIMIT 1;"
    assert shell("--execute", text).out.splitlines() == [
        "Key format: JSON",
        "Value format: JSON",
        'rowtime: 1970/01/01 00:00:00.000 Z, key: 1, value: {"PAGE":"a\\nb"}, partition: 0',
    ]
    record = {"rowtime": "1970/01/01 00:00:00.000 Z", "key": "1", "value": '{"PAGE":"a\\nb"}', "partition": 0}
    assert shell("--execute", text, "--output", "json").lines == [record]
    assert shell("--execute", text, "--output", "csv").out.splitlines()[0] == "rowtime,key,value,partition"
    assert "value     | " in shell("--execute", f"\\x\n{text}").out
    assert "unknown-topic" in shell("--execute", "PRINT nothing;", code=1).err


def test_a_script_runs_another_script(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a.ksql").write_text("RUN SCRIPT 'in/b.ksql';")
    (tmp_path / "in" / "b.ksql").write_text("\\i c.ksql\n")
    (tmp_path / "in" / "c.ksql").write_text(COUNTS + "\nDESCRIBE nothing;")
    told = shell("--file", tmp_path / "a.ksql", code=1)
    assert told.out == "Created query with ID CTAS_COUNTS_1\n\n"
    assert "c.ksql:2:1" in told.err
    (tmp_path / "in" / "c.ksql").write_text("\\i ../a.ksql")
    assert "includes itself" in shell("--file", tmp_path / "a.ksql", code=1).err
    assert "cannot be read" in shell("--execute", f"\\i {tmp_path}/none.ksql", code=1).err


def test_backslash_commands_work(shell: Shell) -> None:
    told = shell("--execute", "\\d\n\\d clicks\n\\d+ clicks\n\\dq\n\\df substring\n\\info")
    for part in ("Stream Name", "Table Name", "Kafka topic          : clicks", "Query ID", "SUBSTRING(text", "RUNNING"):
        assert part in told.out
    assert "\\df [NAME]" in shell("--execute", "\\?").out
    told = shell("--execute", "\\o json\n\\t\n\\o\n\\q\n\\t")
    assert told.out.splitlines()[1:] == ["json"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("\\nonsense", 'no command "\\nonsense"'),
        ("\\d a b", "too much"),
        ("\\o xml", 'no output "xml"'),
        ("\\i", "needs a file"),
        ("\\set a", "needs a value"),
        ("\\d 'a", "cannot be read"),
    ],
)
def test_invalid_commands_are_refused(shell: Shell, line: str, words: str) -> None:
    assert words in shell("--execute", line, code=1).err


def test_an_unknown_name_in_a_command_has_no_line(shell: Shell) -> None:
    told = shell("--execute", "\\d nothing", code=1)
    assert "source-not-found" in told.err
    assert "line" not in told.err


def test_an_unreachable_server_is_an_error() -> None:
    told = Shell("http://127.0.0.1:1")("--execute", "LIST TOPICS;", code=75)
    assert "server-unreachable" in told.err


def test_a_select_warns_if_the_query_of_its_table_does_not_run(shell: Shell) -> None:
    shell("--execute", COUNTS + "INSERT INTO clicks VALUES (1, '/');")
    told = shell("--execute", "SELECT * FROM counts;", "--output", "csv")
    assert told.out.count("\n") == 1  # the headings alone, as before
    assert re.match(r"incomplete: query CTAS_COUNTS_\d+ (is starting|has failed)", told.err)
    assert shell("--execute", "SELECT * FROM clicks;").err == ""


@pytest.mark.parametrize("word", ["exit", "quit;"])
def test_help_and_exit_need_no_backslash_in_a_script(shell: Shell, word: str) -> None:
    told = shell(given=f"help;\nLIST TOPICS;\n{word}")
    assert "Statements end with ;" in told.out
    assert " clicks " in told.out
    assert told.err == ""
