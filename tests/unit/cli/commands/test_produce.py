"""`headrace produce`: lines in, rows and dead letters out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.cli.io.line_reader import read_lines
from headrace.errors import RecordTooLarge
from tests.unit.cli.conftest import Program

SCHEMA = "id bigint key, name string"


def headers(row: dict) -> dict[str, str]:
    return {h["name"]: h["value"] for h in row.get("$headers", [])}


def test_each_line_is_a_value(headrace: Program, lines) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines("one", "", "three"), "--header", "from=here", "--header", "n=1")
    rows = headrace("consume", "a", "--format", "json").lines
    assert [row["value"] for row in rows] == ["one", "", "three"]
    assert headers(rows[0]) == {"from": "here", "n": "1"}
    assert headrace("consume", "a").out == "one\n\nthree\n"


def test_json_lines_become_rows_of_a_typed_topic(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    report = headrace("--json", "produce", "t", lines('{"id":1,"name":"a"}', '{"id":2}')).json
    assert (report["rows"], report["rejects"]) == (2, 0)
    assert [(r["id"], r["name"]) for r in headrace("consume", "t").lines] == [(1, "a"), (2, None)]


def test_an_invalid_line_becomes_a_dead_letter(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    path = lines('{"id":1}', '{"id":"x"}', "nope", '{"id":4}')
    answer = headrace("produce", "t", path, code=1)
    assert 'bad-record: 2 of 4 lines were rejected; they are in topic "t.dead"' in answer.err
    assert [row["id"] for row in headrace("consume", "t").lines] == [1, 4]
    dead = headrace("consume", "t.dead", "--format", "json").lines
    assert [row["value"] for row in dead] == ['{"id":"x"}', "nope"]
    assert [headers(row)["code"] for row in dead] == ["wrong-type", "bad-record"]
    assert [headers(row)["origin"] for row in dead] == [f"{path}:2", f"{path}:3"]
    assert "expected bigint" in headers(dead[0])["reason"]


def test_rejects_may_be_allowed(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    assert headrace("--json", "produce", "t", lines("nope"), "--allow-rejects").json["rejects"] == 1


def test_csv_is_read_with_and_without_a_header(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    headrace("produce", "t", lines("1;one", '2;"two; or\nmore"'), "--format", "csv", "--delimiter", ";")
    one = lines("name,id", "three,3", "bad,x", name="one.csv")
    two = lines("id,name", "4,four", name="two.csv")
    headrace("produce", "t", one, two, "--format", "csv", "--names", "--batch-rows", 1, "--allow-rejects")
    rows = [(r["id"], r["name"]) for r in headrace("consume", "t").lines]
    assert rows == [(1, "one"), (2, "two; or\nmore"), (3, "three"), (4, "four")]
    (dead,) = headrace("consume", "t.dead", "--format", "json").lines
    assert headers(dead)["origin"] == f"{one}:3"


def test_a_raw_topic_takes_its_key_from_an_option(headrace: Program, lines) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", lines('{"id":7}', '{"id":"x"}', "{}"), "--format", "json", "--key", "id")
    headrace("produce", "a", lines("p,q"), "--format", "csv", "--key", 2)
    headrace("produce", "a", lines("k,v", "r,s"), "--format", "csv", "--key", "v", "--names")
    assert [r["key"] for r in headrace("consume", "a", "--format", "json").lines] == ["7", "x", None, "q", "s"]
    assert headrace("produce", "a", lines("1"), "--key", "id", code=1).err.startswith("bad-option: ")


def test_a_typed_topic_takes_its_key_from_the_row(headrace: Program, lines) -> None:
    headrace("topic", "create", "t", "--schema", SCHEMA)
    assert headrace("produce", "t", lines("{}"), "--key", "id", code=1).err.startswith("bad-option: ")


def test_an_oversized_record_becomes_a_dead_letter(headrace: Program, lines) -> None:
    headrace("topic", "create", "a", "--max-record-bytes", 10)
    headrace("produce", "a", lines("short", "x" * 30), "--allow-rejects")
    assert headrace("consume", "a").out == "short\n"
    (dead,) = headrace("consume", "a.dead", "--format", "json").lines
    assert headers(dead)["code"] == "record-too-large"


def test_a_missing_file_is_refused(headrace: Program, tmp_path: Path) -> None:
    headrace("topic", "create", "a")
    headrace("produce", "a", tmp_path / "nothing", code=2)
    headrace("produce", "a", tmp_path, code=2)


def test_an_error_names_the_file_and_line(headrace: Program, lines) -> None:
    headrace("topic", "create", "a", "--quota-bytes", 2000)
    path = lines(*("x" * 100 for _ in range(40)))
    error = headrace("produce", "a", path, "--batch-rows", 5, code=1).err
    assert error.startswith("quota-exceeded: ")
    assert f"{path}:" in error


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_lines_are_read_in_bounded_batches(tmp_path: Path, batch_rows: int, quoted: bool) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\r\n" % i for i in range(10)) + b"end")
    fd = os.open(path, os.O_RDONLY)
    batches = list(read_lines(fd, "lines", batch_rows, 1000, quoted=quoted))
    os.close(fd)
    assert [line for b in batches for line in b.lines] == [*(b"%d" % i for i in range(10)), b"end"]
    assert [n for b in batches for n in b.numbers] == list(range(1, 12))
    assert max(len(b.lines) for b in batches) <= batch_rows
    assert sum(b.bytes_read for b in batches) == path.stat().st_size


def test_an_endless_line_is_refused_before_memory_is_exhausted(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"ok\n" + b"x" * (40 << 20))
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(RecordTooLarge) as caught:
        list(read_lines(fd, "lines", 10, 1000))
    os.close(fd)
    assert caught.value.where == "lines:2"
