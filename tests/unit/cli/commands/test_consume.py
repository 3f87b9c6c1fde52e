"""`headrace consume`: with and without a consumer group."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from headrace.cli.params.offset import EARLIEST, LATEST, OffsetSpec, parse_offset_spec
from headrace.clock import SystemClock
from headrace.contracts import Append, TopicSpec
from headrace.control.statements.journal import Journal
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from tests.unit.cli.conftest import Program

SCHEMA = "id bigint key, name string"


@pytest.fixture
def numbers(headrace: Program, lines) -> Program:
    """A topic `n` with the lines 0 to 9."""
    headrace("topic", "create", "n")
    headrace("produce", "n", lines(*map(str, range(10))))
    return headrace


def test_start_and_end_positions(numbers: Program) -> None:
    assert numbers("consume", "n", "--from", 7).out == "7\n8\n9\n"
    assert numbers("consume", "n", "--from", "latest").out == ""
    assert numbers("consume", "n", "--from", "-1h", "--max", 2).out == "0\n1\n"
    assert numbers("consume", "n", "--from", "2999-01-01").out == ""
    assert numbers("consume", "n", "--from", 11, code=1).err.startswith("offset-out-of-range: ")
    numbers("consume", "n", "--from", "yesterday", code=2)


def test_positions_are_printed_as_text() -> None:
    assert parse_offset_spec("earliest") == EARLIEST
    assert parse_offset_spec("latest") == LATEST
    assert parse_offset_spec("12") == OffsetSpec(offset=12)
    assert parse_offset_spec("2026-01-31T12:00") == OffsetSpec(
        at=int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
    )
    assert parse_offset_spec("2026-01-31T12:00+02:00") == parse_offset_spec("2026-01-31T10:00Z")
    ago = parse_offset_spec("-10m").at
    assert ago is not None
    assert abs(ago / 1000 - (datetime.now(UTC) - timedelta(minutes=10)).timestamp()) < 60


def test_conditions_filter_rows(numbers: Program, lines) -> None:
    numbers("produce", "n", lines("with"), "--header", "kind=special")
    assert numbers("consume", "n", "--where", "value in ('3', '4')").out == "3\n4\n"
    assert numbers("consume", "n", "--header", "kind=special").out == "with\n"
    assert numbers("consume", "n", "--header", "kind=special", "--where", "value = '3'").out == ""
    assert numbers("consume", "n", "--where", "value >", code=1).err.startswith("bad-filter: ")
    assert numbers("consume", "n", "--group", "g", "--where", "value > '7'").out == "8\n9\nwith\n"


def test_conditions_filter_by_fields_of_json_values(headrace: Program, lines) -> None:
    headrace("topic", "create", "orders")
    headrace("produce", "orders", lines('{"amount":5}', '{"amount":20}', "no JSON"))
    where = ("consume", "orders", "--where", "amount > 10")
    assert "--columns" in headrace(*where, code=1).err
    assert headrace(*where, "--columns", "amount double").out == '{"amount":20}\n'
    with EmbeddedLog(headrace.data) as log:
        journal = Journal(log, SystemClock())
        journal.add("CREATE STREAM ORDERS (AMOUNT DOUBLE) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');", {})
        journal.close()
    assert headrace(*where).out == '{"amount":20}\n'
    assert headrace("consume", "orders", "--where", "value LIKE 'no%'").out == "no JSON\n"


def test_columns_without_a_condition_are_refused(numbers: Program) -> None:
    assert numbers("consume", "n", "--columns", "a int", code=1).err.startswith("bad-option: ")


def test_several_topics_and_a_pattern_are_read(numbers: Program, lines) -> None:
    for name in ("orders-a", "orders-b", "other"):
        numbers("topic", "create", name)
        numbers("produce", name, lines(name))
    assert numbers("consume", "other", "--pattern", "orders-.*").out.split() == ["other", "orders-a", "orders-b"]
    assert numbers("consume", "--pattern", "(", code=1).err.startswith("bad-filter: ")
    numbers("consume", code=2)


def test_one_partition_is_read(headrace: Program, lines) -> None:
    headrace("topic", "create", "n", "--partitions", 2, "--partitioner", "round-robin")
    headrace("produce", "n", lines("0", "1", "2", "3"))
    found = [headrace("consume", "n", "--partition", p).out.split() for p in (0, 1)]
    assert sorted(found) == [["0", "2"], ["1", "3"]]
    assert headrace("consume", "n", "--partition", 2, code=1).err.startswith("unknown-partition: ")


def test_rows_are_printed_in_every_format(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    headrace("produce", "t", lines('{"id":1,"name":"a,b"}'))
    assert headrace("consume", "t", "--format", "csv", "--names").out == 'id,name\n1,"a,b"\n'
    assert headrace("consume", "t", "--format", "raw").out == '{"id":1,"name":"a,b"}\n'
    (row,) = headrace("consume", "t").lines
    assert {"id": 1, "name": "a,b", "$topic": "t", "$partition": 0, "$offset": 0, "$sequence": 1}.items() <= row.items()
    table = headrace("consume", "t", "--format", "table").out
    assert "$offset" in table
    assert "a,b" in table


def test_printed_rows_can_be_appended_again(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    headrace("produce", "t", lines('{"id":1,"name":"a"}'))
    headrace("produce", "t", lines(headrace("consume", "t").out.strip()))
    assert [row["id"] for row in headrace("consume", "t").lines] == [1, 1]


def test_bytes_that_are_not_text_are_printed(headrace: Program) -> None:
    with EmbeddedLog(headrace.data) as log:
        log.create_topic("b", TopicSpec())
        log.append([Append("b", pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"\xff\x00"]}))])
    (row,) = headrace("consume", "b", "--format", "json").lines
    assert (row["key"], row["value"]) == ("k", "base64:/wA=")


def test_reading_removed_rows_fails(numbers: Program) -> None:
    with EmbeddedLog(numbers.data) as log:
        log.truncate("n", 0, 6)
    assert numbers("consume", "n", "--from", 2, code=1).err.startswith("offset-lost: ")
    assert numbers("consume", "n", "--from", 2, "--lost", "earliest").out == "6\n7\n8\n9\n"
    assert numbers("consume", "n", "--from", 2, "--lost", "latest").out == ""


def test_a_group_resumes_at_its_committed_offset(numbers: Program, lines) -> None:
    assert numbers("consume", "n", "--group", "g", "--max", 4).out == "0\n1\n2\n3\n"
    assert numbers("group", "describe", "g", "--json").json["offsets"][0]["offset"] == 4
    assert numbers("consume", "n", "--group", "g").out == "4\n5\n6\n7\n8\n9\n"
    assert numbers("consume", "n", "--group", "g").out == ""
    assert numbers("consume", "n").out.split() == [str(i) for i in range(10)]
    numbers("produce", "n", lines("more"))
    assert numbers("consume", "n", "--group", "g").out == "more\n"
    assert numbers("consume", "n", "--group", "new", "--from", "latest").out == ""


def test_options_that_a_group_does_not_allow_are_refused(numbers: Program) -> None:
    assert numbers("consume", "n", "--group", "g", "--partition", 0, code=1).err.startswith("bad-option: ")
    assert "group reset" in numbers("consume", "n", "--group", "g", "--from", 3, code=1).err


FORMULAS = ["=1+1", "@SUM(1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\r=1", "\n=1", "＝1"]
FORMULAS += ["  =1+1", " \t@A1", "\xa0=1", "\ufeff=1", "\u200b＝1", " -2+3", "﹦1", "\u3000＠A1"]
HARMLESS = ["a=1", "-5", "+4.5", "-1e3", "", "'=1", " a=1", "  -5", " "]


def test_csv_output_contains_no_spreadsheet_formulas(headrace: Program) -> None:
    headrace("topic", "create", "typed", "--schema", "id bigint, name string")
    headrace("topic", "create", "plain")
    texts = [*FORMULAS, *HARMLESS]
    with EmbeddedLog(headrace.data) as log:
        rows = pa.RecordBatch.from_pydict({"id": [-1] * len(texts), "name": texts})
        log.append([Append("typed", rows), Append("plain", [Record(text.encode()) for text in texts])])
    expected = [*(f"'{text}" for text in FORMULAS), *HARMLESS]
    for topic, first in (("typed", "-1"), ("plain", "")):
        assert _cells(headrace("consume", topic, "--format", "csv").out) == [[first, text] for text in expected]
        assert _cells(headrace("consume", topic, "--format", "csv-exact").out) == [[first, text] for text in texts]


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))
