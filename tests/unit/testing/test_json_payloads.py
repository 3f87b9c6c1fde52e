from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from headrace.errors import BadTestCases
from headrace.plan.relations import Format, Kind, Relation, Window, WindowKind
from headrace.plan.sources import SourceInfo
from headrace.plan.types import BIGINT, BYTES, DOUBLE, INT, STRING
from headrace.schema import Field
from headrace.testing import json_payloads


def source(key: Any = STRING, value: Any = INT, *, form: str = "JSON", window: Window | None = None) -> SourceInfo:
    relation = Relation(Kind.STREAM, (Field("K", key),), (Field("V", value),), window)
    return SourceInfo("S", "s", relation, Format("KAFKA"), Format(form))


@pytest.mark.parametrize(
    "text", ['{"A": 1.0, "B": 1.00, "C": 1}', '["a", null, true]', '"text"', "12345678901234567890", "1.50"]
)
def test_a_json_document_keeps_the_text_of_its_numbers(text: str) -> None:
    assert json_payloads.json_text(json_payloads.read_json(text)) == text


def test_doubles_are_written_as_java_writes_them() -> None:
    assert json_payloads.json_text([1e10, 0.5, float("nan")]) == '[1.0E10, 0.5, "NaN"]'


@pytest.mark.parametrize(
    ("form", "kind", "document", "payload"),
    [
        ("JSON", INT, {"V": Decimal("1.10")}, b'{"V": 1.10}'),
        ("DELIMITED", INT, "1,a", b"1,a"),
        ("KAFKA", INT, 5, b"\x00\x00\x00\x05"),
        ("KAFKA", BIGINT, -1, b"\xff" * 8),
        ("KAFKA", DOUBLE, 1.5, b"\x3f\xf8" + bytes(6)),
        ("KAFKA", STRING, "a", b"a"),
        ("KAFKA", BYTES, "YQ==", b"YQ=="),
        ("JSON", INT, None, None),
    ],
)
def test_a_document_is_encoded_and_decoded(form: str, kind: Any, document: Any, payload: bytes | None) -> None:
    described = source(value=kind, form=form)
    assert json_payloads.encode_value(document, described) == payload
    assert json_payloads.decode_value(payload, described) == document


def test_a_value_of_format_none_is_null() -> None:
    assert json_payloads.encode_value({"V": 1}, source(form="NONE")) is None


@pytest.mark.parametrize(
    ("window", "document", "payload"),
    [
        (
            Window(WindowKind.TUMBLING, size=timedelta(seconds=1)),
            {"start": 2000, "end": 3000, "type": "time"},
            b"k" + (2000).to_bytes(8),
        ),
        (
            Window(WindowKind.SESSION),
            {"start": 5, "end": 9, "type": "session"},
            b"k" + (9).to_bytes(8) + (5).to_bytes(8),
        ),
    ],
    ids=["time", "session"],
)
def test_a_windowed_key_has_its_window(window: Window, document: dict[str, Any], payload: bytes) -> None:
    described = source(window=window)
    assert json_payloads.encode_key("k", document, described) == payload
    assert json_payloads.decode_key(payload, described) == ("k", document)


def test_a_format_without_a_json_form_is_refused() -> None:
    with pytest.raises(BadTestCases, match="AVRO"):
        json_payloads.encode_value({}, source(form="AVRO"))
