"""Request bodies become rows: the fast decoders read what the exact decoder reads, for any text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.schema import Schema
from headrace.serve.api.log_io.json_elements import array_elements, flat_objects
from headrace.serve.api.log_io.record_decoder import decode_records
from headrace.serve.api.parameters import Payload

TYPED = Topic("typed", TopicSpec(schema=Schema.parse("id bigint key, name string")), 0)
RAW = Topic("raw", TopicSpec(), 0)
BORDERS = st.text('{}[]",:\\ \n', max_size=8) | st.text(st.characters(codec="utf-8"), max_size=4)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | BORDERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(BORDERS, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": BORDERS}), max_size=4)
FORMS = st.tuples(st.booleans(), st.sampled_from([None, (",", ":")]), st.sampled_from([None, 1]), st.booleans())


def body(records: list[Any], form: tuple[Any, ...]) -> bytes:
    """The same records, written in one of many ways."""
    escaped, separators, indent, wrapped = form
    document = {"records": records} if wrapped else records
    return json.dumps(document, ensure_ascii=escaped, separators=separators, indent=indent).encode()


@given(ROWS, FORMS)
@example([{"id": 1, "name": "},{"}, {"id": 2, "name": '"},{"'}], (False, (",", ":"), None, False))
def test_rows_with_a_schema_are_decoded(rows: list[Any], form: tuple[Any, ...]) -> None:
    found = decode_records(Payload(body(rows, form), ""), TYPED).to_pylist()
    assert [{name: row[name] for name in ("id", "name")} for row in found] == rows


@given(st.lists(st.fixed_dictionaries({}, optional={"key": VALUES, "value": VALUES}), max_size=4), FORMS)
@example([{"key": 1.0, "value": {"a": 10**30, "b": -0.0}}], (False, None, None, True))
def test_raw_records_are_decoded(records: list[Any], form: tuple[Any, ...]) -> None:
    read = decode_records(Payload(body(records, form), ""), RAW).to_pylist()
    for given_, found in zip(records, read, strict=True):
        for name in ("key", "value"):
            assert _meant(found[name], given_.get(name)) == _exactly(given_.get(name)), name


def _meant(data: bytes | None, given_: Any) -> Any:
    if data is None or isinstance(given_, str):
        return None if data is None else data.decode()
    return json.loads(data, parse_float=Decimal)


def _exactly(value: Any) -> Any:
    return value if isinstance(value, str) else json.loads(json.dumps(value), parse_float=Decimal)


@given(st.binary(max_size=12) | st.text('{}[]",:1a \n', max_size=12).map(str.encode))
def test_the_fast_splitter_agrees_with_the_json_parser(text: bytes) -> None:
    """If all parts are JSON, they are the elements; otherwise they are not used."""
    parts = flat_objects(text)
    if parts is None:
        return
    try:
        values = [json.loads(part) for part in parts]
    except ValueError:
        return
    assert values == [value for value, _ in array_elements(text)]
