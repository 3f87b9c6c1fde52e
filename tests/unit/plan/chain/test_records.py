"""Decoding and encoding of raw records: formats, times, windowed keys, system columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import Decoder, Encoder, RawRecord
from headrace.plan.nodes import Filter, Query, Source
from headrace.plan.relations import Format, Relation, System, SystemColumn, Timestamp, Window, WindowKind
from headrace.plan.steps import Context, Problem
from headrace.schema import Field
from tests.unit.plan.chain.expression_builders import compare, lit, relation, sink, source

OVER = relation(A=ty.INT, T=ty.STRING)
BYTES_OF = {"a": b"a"}


def decode(made: Source, value: bytes | None = b'{"A":1,"T":"x"}', key: bytes | None = b"k", **more: Any) -> Any:
    return Decoder(made).decode(RawRecord(key, value, more.pop("time", 5), **more))


def test_a_record_becomes_an_event() -> None:
    assert decode(source(OVER)) == (5, ("k",), (1, "x"))


def test_a_null_key_and_value_decode_to_none() -> None:
    assert decode(source(OVER), None, None) == (5, None, None)


def test_a_relation_without_a_key_ignores_the_records() -> None:
    assert decode(source(relation(key={}, A=ty.INT)), b'{"A":1}') == (5, None, (1,))


@pytest.mark.parametrize("value", [b"{", b"[1]", b'{"A":"x"}'])
def test_an_invalid_payload_is_reported(value: bytes) -> None:
    problem = decode(source(OVER), value, partition=2, offset=7)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.where, problem.row) == ("bad-record", "topic in, partition 2, offset 7", value)


def timed(column: str, form: str | None = None, kind: Any = ty.BIGINT) -> Source:
    return replace(source(relation(A=kind)), timestamp=Timestamp(column, form))


def bad_time(made: object) -> bool:
    return isinstance(made, Problem) and made.code == "bad-time"


def test_the_timestamp_column_gives_the_time() -> None:
    assert decode(timed("A"), b'{"A":99}') == (99, ("k",), (99,))
    text = timed("A", "yyyy-MM-dd'T'HH:mm:ssX", ty.STRING)
    assert decode(text, b'{"A":"2018-05-11T21:58:33Z"}')[0] == 1526075913000


def test_the_timestamp_column_may_be_in_the_key() -> None:
    made = replace(source(relation(key={"K": ty.BIGINT}, A=ty.INT)), timestamp=Timestamp("K"))
    assert decode(made, b'{"A":1}', (77).to_bytes(8))[0] == 77


def test_without_a_payload_the_record_keeps_its_time() -> None:
    assert decode(timed("A"), None) == (5, ("k",), None)


@pytest.mark.parametrize("value", [b'{"A":-1}', b'{"A":null}'])
def test_a_record_with_a_null_timestamp_is_dropped(value: bytes) -> None:
    assert bad_time(decode(timed("A"), value))


def test_a_record_with_an_invalid_timestamp_is_dropped() -> None:
    assert bad_time(decode(timed("A", "yyyy-MM-dd", ty.STRING), b'{"A":"never"}'))


TIME = Window(WindowKind.TUMBLING, size=timedelta(seconds=1))
SESSION = Window(WindowKind.SESSION, gap=timedelta(seconds=1))


@pytest.mark.parametrize(
    ("window", "key", "bounds"),
    [(TIME, b"k" + (3000).to_bytes(8), (3000, 4000)), (SESSION, b"k" + (9).to_bytes(8) + (4).to_bytes(8), (4, 9))],
    ids=["time", "session"],
)
def test_windowed_keys_are_decoded(window: Window, key: bytes, bounds: tuple[int, int]) -> None:
    over = Relation(OVER.kind, OVER.key, OVER.value, window)
    event = decode(source(over), key=key)
    assert event == (5, ("k", bounds), (1, "x"))
    written = Encoder(sink(source(over))).encode(event)
    assert isinstance(written, RawRecord)
    assert written.key == key


def test_a_windowed_key_that_is_too_short_is_reported() -> None:
    over = Relation(OVER.kind, OVER.key, OVER.value, TIME)
    assert isinstance(decode(source(over), key=b"short"), Problem)


def test_system_columns_follow_the_payload() -> None:
    system = (
        SystemColumn("P", System.PARTITION),
        SystemColumn("O", System.OFFSET),
        SystemColumn("HS", System.HEADERS),
        SystemColumn("H", System.HEADER, "a"),
        SystemColumn("G", System.HEADER, "b"),
    )
    fields = [Field("A", ty.INT), *(Field(column.name, ty.BYTES) for column in system)]
    made = replace(source(Relation(OVER.kind, OVER.key, tuple(fields))), system=system)
    headers = (("a", b"1"), ("a", b"2"), ("c", None))
    _, _, row = decode(made, b'{"A":1}', partition=3, offset=4, headers=headers)
    all_headers = [{"KEY": "a", "VALUE": b"1"}, {"KEY": "a", "VALUE": b"2"}, {"KEY": "c", "VALUE": None}]
    assert row == (1, 3, 4, all_headers, b"2", None)
    assert decode(made, None) == (5, ("k",), None)


def test_an_entry_becomes_a_record() -> None:
    made = Encoder(sink(source(OVER)))
    assert made.encode((5, ("k",), (1, None))) == RawRecord(b"k", b'{"A":1,"T":null}', 5)
    assert made.encode((5, None, None)) == RawRecord(None, None, 5)
    assert made.encode((5, ("k",), None, (1, None))) == RawRecord(b"k", None, 5)


def test_the_timestamp_column_of_a_sink_gives_the_record_time() -> None:
    made = Encoder(replace(sink(source(OVER)), timestamp=Timestamp("A")))
    written = made.encode((5, ("k",), (9, "x")))
    assert isinstance(written, RawRecord)
    assert written.time == 9
    assert bad_time(made.encode((5, ("k",), (-9, "x"))))
    assert bad_time(made.encode((5, ("k",), (None, "x"))))


def test_a_pipeline_decodes_encodes_reports_and_forwards_headers() -> None:
    problems: list[Problem] = []
    node = Filter(source(OVER), OVER, compare(ex.Column(ty.INT, "A"), ">", lit(0)))
    pipe = Pipeline(Query("q", replace(sink(node), value_format=Format("DELIMITED"))), Context(report=problems.append))
    headers = (("trace", b"7"),)
    out = pipe.run(
        [
            ("in", RawRecord(b"k", b'{"A":1,"T":"x"}', 1)),
            ("in", RawRecord(b"k", b'{"A":2,"T":"y"}', 2, headers)),
            ("in", RawRecord(b"k", b"oops", 3)),
            ("elsewhere", RawRecord(b"k", b"oops", 3)),
            ("in", RawRecord(b"k", b'{"A":0}', 4)),
        ]
    )
    assert out == [RawRecord(b"k", b"1,x", 1), RawRecord(b"k", b"2,y", 2, headers)]
    assert [problem.code for problem in problems] == ["bad-record"]
