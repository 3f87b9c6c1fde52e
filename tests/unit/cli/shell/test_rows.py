"""Output of rows in every format, with responses given byte by byte."""

from __future__ import annotations

import csv
import json
from decimal import Decimal

import pytest

from headrace.cli.shell.row_buffer import RowBuffer
from headrace.client import Client
from tests.unit.cli.shell.test_session import Shell
from tests.unit.client.conftest import Serve, broken
from tests.unit.client.test_client import END, OK, chunk

__all__ = ["broken"]  # a fixture

TYPES = ["INTEGER", "STRING", "DECIMAL(30, 2)", "ARRAY<INTEGER>"]
HEAD = json.dumps({"queryId": "q", "columnNames": ["ID", "PAGE", "D", "L"], "columnTypes": TYPES})
BIG = "1234567890123456789012345678.50"
ROWS = f'[1,"=a, \\"b\\"",{BIG},[1,2]]\n[2,null,0.10,null]\n'
ANSWER = OK + chunk(HEAD + "\n" + ROWS) + END
GONE = '{"@type":"generic_error","error_code":50000,"code":"unknown-topic","message":"gone"}\n'


def test_rows_are_printed_as_a_table(broken: Serve) -> None:
    assert Shell(broken(ANSWER))("--execute", "SELECT 1;").out.splitlines() == [
        " ID | PAGE    |                               D | L",
        "---------------------------------------------------------",
        f'  1 | =a, "b" | {BIG} | [1, 2]',
        "  2 | null    |                            0.10 | null",
    ]


def test_rows_are_printed_vertically(broken: Serve) -> None:
    told = Shell(broken(ANSWER))("--execute", "\\x\nSELECT 1;").out.splitlines()
    assert told[1:6] == ["-[ row 1 ]----", "ID   | 1", 'PAGE | =a, "b"', f"D    | {BIG}", "L    | [1, 2]"]
    assert told[6] == "-[ row 2 ]----"


def test_json_keeps_every_digit(broken: Serve) -> None:
    told = Shell(broken(ANSWER))("--execute", "SELECT 1;", "--output", "json").out.splitlines()
    documents = [json.loads(line, parse_float=Decimal) for line in told]
    assert documents[0] == {"ID": 1, "PAGE": '=a, "b"', "D": Decimal(BIG), "L": [1, 2]}
    assert '"D": 0.10' in told[1]


@pytest.mark.parametrize(("form", "page"), [("csv", '\'=a, "b"'), ("csv-exact", '=a, "b"')])
def test_csv_is_exact_except_for_escaped_formulas(broken: Serve, form: str, page: str) -> None:
    told = Shell(broken(ANSWER))("--execute", "SELECT 1;", "--output", form).out
    assert list(csv.reader(told.splitlines())) == [
        ["ID", "PAGE", "D", "L"],
        ["1", page, BIG, "[1, 2]"],
        ["2", "", "0.10", ""],
    ]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_rows_before_an_error_are_printed(broken: Serve, form: str) -> None:
    told = Shell(broken(OK + chunk(HEAD + "\n" + ROWS + GONE) + END))(
        "--execute", "SELECT 1;", "--output", form, code=1
    )
    assert "0.10" in told.out
    assert "unknown-topic" in told.err


def test_a_truncated_response_is_an_error(broken: Serve) -> None:
    told = Shell(broken(OK + chunk(HEAD + "\n" + ROWS)))("--execute", "SELECT 1;", "--output", "csv", code=75)
    assert "0.10" in told.out
    assert "connection-lost" in told.err


def test_an_empty_result_prints_its_header(broken: Serve) -> None:
    assert Shell(broken(OK + chunk(HEAD + "\n") + END))("--execute", "SELECT 1;").out.startswith(" ID | PAGE | D | L\n")


def test_a_lone_surrogate_is_printed_escaped(broken: Serve) -> None:
    answer = OK + chunk(HEAD + '\n[1,"\\ud800",1,null]\n') + END
    assert "\\ud800" in Shell(broken(answer))("--execute", "SELECT 1;").out
    assert '"PAGE": "\\ud800"' in Shell(broken(answer))("--execute", "SELECT 1;", "--output", "json").out


def test_closing_the_buffer_ends_a_query_whose_rows_are_not_read(broken: Serve) -> None:
    rows = Client(broken(OK + chunk(HEAD + "\n") + chunk("[1,null,1,null]\n") * 50)).query("x;")
    with RowBuffer(rows) as arrivals:
        assert 1 <= len(arrivals.first(1, 10.0, 0.0)) < 50
