"""`headrace topic`."""

from __future__ import annotations

from typer.testing import CliRunner

from headrace import cli
from headrace.contracts import TOPIC_OPTIONS
from tests.unit.cli.conftest import Program

SCHEMA = "id bigint key, name string"


def test_topics_are_created_described_altered_and_deleted(headrace: Program) -> None:
    limits = ("--retention-time", "7d", "--retention-bytes", "10GB", "--archive", "--compact")
    headrace("topic", "create", "users", "--partitions", 2, "--schema", SCHEMA, *limits)
    found = headrace("topic", "describe", "users", "--json").json
    assert found["options"]["schema"] == SCHEMA
    assert (found["options"]["retention_time"], found["options"]["retention_bytes"]) == ("1w", 10 << 30)
    assert found["options"]["archive"] is found["options"]["compact"] is True
    assert [p["end"] for p in found["partitions"]] == [0, 0]

    headrace("topic", "alter", "users", "--no-archive", "--retention-bytes", "none", "--partitions", 3)
    found = headrace("topic", "describe", "users", "--json").json
    assert found["options"]["retention_bytes"] is None
    assert found["options"]["archive"] is False
    assert found["options"]["retention_time"] == "1w"
    assert len(found["partitions"]) == 3

    headrace("topic", "delete", "users", "--yes")
    assert headrace("topic", "list", "--json").json == []


def test_list_and_describe_show_rows_and_sizes(headrace: Program, lines) -> None:
    headrace("topic", "create", "a", "--partitions", 2)
    headrace("produce", "a", lines("1", "2", "3"))
    (row,) = headrace("topic", "list", "--json").json
    assert row["rows"] == 3
    assert row["size"] > 0
    partitions = headrace("topic", "describe", "a", "--json").json["partitions"]
    assert sorted(p["rows"] for p in partitions) == [1, 2]
    assert "partition" in headrace("topic", "describe", "a").out


def test_delete_asks_for_confirmation(headrace: Program) -> None:
    headrace("topic", "create", "a")
    arguments = ["--data", str(headrace.data), "topic", "delete", "a"]
    assert CliRunner().invoke(cli.app, arguments, input="n\n").exit_code == 1
    assert len(headrace("topic", "list", "--json").json) == 1
    assert CliRunner().invoke(cli.app, arguments, input="y\n").exit_code == 0
    assert headrace("topic", "list", "--json").json == []


def test_invalid_topic_commands_are_refused(headrace: Program) -> None:
    headrace("topic", "create", "a")
    assert headrace("topic", "create", "a", code=1).err.startswith("topic-exists: ")
    assert headrace("topic", "create", "b", "--schema", "id", code=1).err.startswith("bad-schema: ")
    assert headrace("topic", "create", "b", "--archive", code=1).err.startswith("bad-topic-option: ")
    assert headrace("topic", "alter", "a", "--schema", SCHEMA, code=1).err.startswith("incompatible-schema: ")


def test_every_topic_option_is_on_the_command_line() -> None:
    shown = " ".join(CliRunner().invoke(cli.app, ["topic", "create", "--help"]).stdout.split())
    for name, doc in TOPIC_OPTIONS.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert doc in shown
