"""The text form of schemas, and which changes old records survive."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadSchema, IncompatibleSchema
from headrace.schema import PRIMITIVES, RAW, Field, Schema, evolve, parse_type, type_name

names = st.text(min_size=1, max_size=8).filter(lambda s: not s.startswith("$") and s.strip() == s and "\x00" not in s)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))
types = st.recursive(
    st.sampled_from(list(PRIMITIVES.values())) | decimals,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(st.sampled_from([pa.string(), pa.int64()]), inner).map(lambda kv: pa.map_(*kv)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda f: f[0]).map(pa.struct),
    ),
    max_leaves=4,
)
schemas = st.lists(st.tuples(names, types, st.booleans()), min_size=1, max_size=5, unique_by=lambda c: c[0]).map(
    lambda columns: Schema(
        tuple(Field(name, kind) for name, kind, _ in columns), tuple(name for name, _, is_key in columns if is_key)
    )
)


@given(schemas)
def test_the_text_is_read_back(schema: Schema) -> None:
    assert Schema.parse(str(schema)) == schema


@given(types)
def test_the_text_of_a_type_is_read_back(kind: pa.DataType) -> None:
    assert parse_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    ("column", "default"),
    [
        ("a int default -5", -5),
        ("a double default 1.5", 1.5),
        ("a double default '1e-07'", 1e-07),
        ("a string default 'it''s'", "it's"),
        ("a string default ''", ""),
        ("a boolean default true", True),
        ("a boolean default false", False),
        ("a decimal(5,2) default 1.25", Decimal("1.25")),
        ("a date default '2024-02-29'", datetime.date(2024, 2, 29)),
        ("a bytes default 'abc'", b"abc"),
        ("a timestamp default '2024-01-01T00:00:00Z'", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        ("a time default '12:30:00'", datetime.time(12, 30)),
    ],
)
def test_defaults_are_read_back(column: str, default: object) -> None:
    schema = Schema.parse(column)
    assert schema["a"].default == default
    assert Schema.parse(str(schema)) == schema


def test_a_schema_lists_its_columns() -> None:
    schema = Schema.parse("ID long KEY, `odd name` VARCHAR, at struct<x:int, y array<text>>")
    assert schema.names == ("ID", "odd name", "at")
    assert schema.key == ("ID",)
    assert schema["at"].type == pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    assert "ID" in schema
    assert "no" not in schema
    assert not schema.is_raw
    assert Schema.parse("key bytes key, value bytes").is_raw
    assert RAW.arrow == pa.schema([("key", pa.binary()), ("value", pa.binary())])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a int,",
        "a int b",
        "a nothing",
        "a int, a int",
        "$a int",
        "`$a` int",
        "a decimal",
        "a decimal(39,0)",
        "a decimal(5,6)",
        "a array<int",
        "a array int",
        "a map<int>",
        "a struct<>",
        "a int default",
        "a int default 'x'",
        "a int default 1.5",
        "a array<int> default 5",
        "a int; drop",
        "5 int",
    ],
)
def test_invalid_schemas_are_refused(text: str) -> None:
    with pytest.raises(BadSchema) as raised:
        Schema.parse(text)
    assert raised.value.fix


def test_key_columns_must_exist() -> None:
    with pytest.raises(BadSchema):
        Schema((Field("a", pa.int32()),), ("b",))


def test_types_without_a_name_are_refused() -> None:
    with pytest.raises(BadSchema):
        type_name(pa.uint8())


OLD = "id int key, p float, d decimal(5,2), day date, l array<int>, m map<string,int>, s struct<x int>"


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        f"new string, {OLD}",
        OLD.replace("id int", "id bigint"),
        OLD.replace("id int", "id double"),
        OLD.replace("p float", "p double"),
        OLD.replace("decimal(5,2)", "decimal(9,4)"),
        OLD.replace("day date", "day timestamp"),
        OLD.replace("array<int>", "array<bigint>"),
        OLD.replace("map<string,int>", "map<string,bigint>"),
        OLD.replace("struct<x int>", "struct<y string,x bigint>"),
        OLD.replace("p float", "p float default 1"),
    ],
)
def test_compatible_changes_are_allowed(new: str) -> None:
    assert evolve(Schema.parse(OLD), Schema.parse(new)) == Schema.parse(new)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (OLD.replace("p float, ", ""), '"p" is missing'),
        (OLD.replace("id int key", "id int"), "key cannot change"),
        (OLD.replace("p float", "p float key"), "key cannot change"),
        (OLD.replace("p float", "p string"), "from float to string"),
        (OLD.replace("decimal(5,2)", "decimal(5,3)"), "decimal(5,3)"),
        (OLD.replace("map<string,int>", "map<int,int>"), '"m"'),
        (OLD.replace("struct<x int>", "struct<y int>"), '"s"'),
        (OLD.replace("array<int>", "array<string>"), '"l"'),
    ],
)
def test_incompatible_changes_are_refused(new: str, said: str) -> None:
    with pytest.raises(IncompatibleSchema) as raised:
        evolve(Schema.parse(OLD), Schema.parse(new))
    assert said in raised.value.what


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(IncompatibleSchema) as raised:
        evolve(Schema.parse("a int key, b int"), Schema.parse("a string"))
    assert raised.value.what.count(";") == 2
