"""The JSON column writer writes the bytes of the row encoder."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.json.column_writer import JsonColumnWriter, can_write
from headrace.formats.lookup import find_format
from headrace.formats.values import plain
from headrace.schema import Field, Schema
from tests.unit.formats.rows import KINDS, LEAVES, values

FLAT = LEAVES.filter(lambda kind: kind != KINDS["bytes"])
DOUBLES = st.sampled_from([0.0, -0.0, 1e-3, 9.99e-4, 1e7, 9999999.0, 1.0, 0.1, float("nan"), float("inf"), 5e-324])


def check(columns: list[Field], rows: list[tuple[Any, ...] | None], *, bare: bool) -> None:
    nothing = (None,) * len(columns)
    cells = zip(*(nothing if row is None else row for row in rows), strict=True) if rows else [[]] * len(columns)
    arrays = [pa.array(list(those), plain(c.type)) for those, c in zip(cells, columns, strict=True)]
    there = pa.array([row is not None for row in rows], pa.bool_())
    serde = find_format("JSON", {}).serde(columns, is_key=False, wrapped=not bare)
    assert JsonColumnWriter(columns, bare=bare).write(arrays, there).to_pylist() == [serde.encode(row) for row in rows]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Field], list[tuple[Any, ...] | None]]:
    names = draw(st.lists(st.sampled_from(["A", "b", 'q"x', "d\\", "é"]), min_size=1, max_size=4, unique=True))
    columns = [Field(name, draw(FLAT)) for name in names]
    row = st.tuples(*(values(c.type) | DOUBLES if c.type == KINDS["double"] else values(c.type) for c in columns))
    return columns, draw(st.lists(st.none() | row, max_size=4))


@settings(max_examples=60, deadline=None)
@given(tables(), st.booleans())
def test_the_column_writer_agrees_with_the_row_encoder(
    table: tuple[list[Field], list[tuple[Any, ...] | None]], bare: bool
) -> None:
    columns, rows = table
    check(columns, rows, bare=bare and len(columns) == 1)


def test_texts_are_escaped_as_by_the_row_encoder() -> None:
    texts = ['a"b', "a\\b", "\x00\x1f\x7f\n\t", "é\u2028 😀", "", "/", "<&'"]
    check([Field("A", pa.string())], [(text,) for text in texts], bare=False)


@pytest.mark.parametrize("columns", ["A array<int>", "A map<string,int>", "A struct<X int>", "A bytes"])
def test_types_that_are_left_to_the_row_encoder(columns: str) -> None:
    assert not can_write(Schema.parse(columns).fields)
