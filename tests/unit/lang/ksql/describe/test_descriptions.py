"""Results of statements: their structure, their text, and how PRINT decodes records."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from headrace.lang.ksql.describe.schema_json import schema_json
from headrace.lang.listing import Column, Fact, Listing, Table, TypeCell
from headrace.lang.listing_text import listing_text, quote_identifier, shell_type_text
from headrace.lang.record_printer import NO_DATA, guess_format, print_records
from headrace.plan import types as t
from headrace.plan.actions import MetadataKind, MetadataQuery
from headrace.plan.chain.records import RawRecord

LISTING = Listing(
    "things",
    "LIST THINGS;",
    (Fact("owner", "Owner", "me", is_name=True), Fact("secret", "", 1)),
    (
        Table(
            "things",
            (Column("name", "Name", is_name=True), Column("", "Type"), Column("parts", "Parts"), Column("raw")),
            (("A", TypeCell(t.INT, "(key)"), ["x", "y"], 1), ("FROM", TypeCell(t.STRING), [], None)),
        ),
        Table("more", (Column("id", "Id"),), ((True,),), title="More of them"),
        Table("none", (Column("id", "Id"),), (), title="None of them"),
    ),
    (Fact("plan", "Plan", "one\n  two"), Fact("graph", "", "digraph {}")),
    notes=("That is all.",),
)


def test_the_text_is_aligned_and_names_are_quoted() -> None:
    assert listing_text(LISTING, {"FROM"}).splitlines() == [
        "Owner                : `me`",
        " Name   | Type            | Parts",
        "----------------------------------",
        " A      | INTEGER  (key)  | x, y",
        " `FROM` | VARCHAR(STRING) |",
        "----------------------------------",
        "",
        "More of them",
        "------------",
        " Id",
        "------",
        " true",
        "------",
        "",
        "Plan",
        "----",
        "one",
        "  two",
        "",
        "That is all.",
    ]


def test_the_json_entity_has_raw_values_and_only_named_fields() -> None:
    assert LISTING.entity() == {
        "@type": "things",
        "statementText": "LIST THINGS;",
        "owner": "me",
        "secret": 1,
        "plan": "one\n  two",
        "graph": "digraph {}",
        "things": [{"name": "A", "parts": ["x", "y"], "raw": 1}, {"name": "FROM", "parts": [], "raw": None}],
        "more": [{"id": True}],
        "none": [],
        "warnings": [],
    }


def test_hidden_tables_appear_only_in_json() -> None:
    table = LISTING.tables[1].unseen()
    assert table.documents() == [{"id": True}]
    assert listing_text(Listing("x", tables=(table,))) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [("A_1", "A_1"), ("a", "`a`"), ("1A", "`1A`"), ("A b", "`A b`"), ("A`B", "`A``B`"), ("FROM", "`FROM`")],
)
def test_names_are_quoted_if_necessary(name: str, text: str) -> None:
    assert quote_identifier(name, {"FROM"}) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (t.STRING, "VARCHAR(STRING)"),
        (t.decimal(4, 2), "DECIMAL(4, 2)"),
        (t.array(t.STRING), "ARRAY<VARCHAR(STRING)>"),
        (t.map_of(t.STRING, t.array(t.INT)), "MAP<STRING, ARRAY<INTEGER>>"),
        (
            t.struct([("A", t.struct([("firstName", t.STRING)])), ("FROM", t.BIGINT)]),
            "STRUCT<A STRUCT<`firstName` VARCHAR(STRING)>, `FROM` BIGINT>",
        ),
    ],
)
def test_types_are_formatted(kind: pa.DataType, text: str) -> None:
    assert shell_type_text(kind, {"FROM"}) == text


def test_types_are_formatted_as_json() -> None:
    money = {"type": "DECIMAL", "fields": None, "memberSchema": None, "parameters": {"precision": 4, "scale": 2}}
    struct_of = {"type": "STRUCT", "fields": [{"name": "A", "schema": money}], "memberSchema": None}
    kind = t.struct([("A", t.decimal(4, 2))])
    assert schema_json(t.array(kind)) == {"type": "ARRAY", "fields": None, "memberSchema": struct_of}
    assert schema_json(t.map_of(t.STRING, kind)) == {"type": "MAP", "fields": None, "memberSchema": struct_of}


# -- PRINT ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payloads", "format"),
    [
        ([], NO_DATA),
        ([None], NO_DATA),
        ([b'{"a": 1}', b"12"], "JSON or KAFKA_STRING"),
        ([b'{"a": 1}', b"a,b"], "KAFKA_STRING"),
        ([struct.pack(">i", 7), None], "KAFKA_INT"),
        ([struct.pack(">q", 7)], "KAFKA_BIGINT or KAFKA_DOUBLE"),
        ([b"\xff\x00\x01"], "UNRECOGNIZED_BYTES"),
        ([b"abc", struct.pack(">i", 7)], "mixed"),
    ],
)
def test_formats_of_records_are_guessed(payloads: list[bytes | None], format: str) -> None:
    assert guess_format(payloads) == format


RECORDS = [RawRecord(struct.pack(">i", n), b'{"n": %d}' % n, n * 1000, partition=n % 2) for n in range(5)]


def test_records_of_an_undeclared_topic_are_printed() -> None:
    listing = print_records(
        MetadataQuery(MetadataKind.TOPIC, "x"),
        [*RECORDS[:2], RawRecord(None, None, 1 << 62), RawRecord(b"k", b"\xff", 5)],
        None,
    )
    assert listing_text(listing).splitlines() == [
        "Key format: mixed",
        "Value format: mixed",
        'rowtime: 1970/01/01 00:00:00.000 Z, key: 0, value: {"n": 0}, partition: 0',
        'rowtime: 1970/01/01 00:00:01.000 Z, key: 1, value: {"n": 1}, partition: 1',
        "rowtime: 4611686018427387904, key: <null>, value: <null>, partition: 0",
        "rowtime: 1970/01/01 00:00:00.005 Z, key: k, value: 0xff, partition: 0",
    ]


@pytest.mark.parametrize(
    ("interval", "limit", "keys"),
    [(None, None, "01234"), (2, None, "024"), (2, 2, "02"), (None, 1, "0"), (9, 9, "0")],
)
def test_print_takes_every_nth_record_up_to_a_limit(interval: int | None, limit: int | None, keys: str) -> None:
    (table,) = print_records(
        MetadataQuery(MetadataKind.TOPIC, "x", interval=interval, limit=limit), RECORDS, None
    ).tables
    assert "".join(row[1] for row in table.rows) == keys
