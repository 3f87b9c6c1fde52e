"""The formats KAFKA and NONE, and the lookup of formats by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headrace.component import components
from headrace.errors import (
    BadFormatOption,
    BadRecord,
    FormatUnsupported,
    MissingDependency,
    StatementError,
    UnknownFormat,
)
from headrace.formats.lookup import find_format, wrappings
from headrace.formats.optional_libraries import require_library
from headrace.schema import Schema


def serde(columns: str) -> Any:
    return find_format("kafka", {}).serde(Schema.parse(columns).fields, is_key=False, wrapped=False)


@pytest.mark.parametrize(
    ("kind", "value", "payload"),
    [
        ("int", -2, b"\xff\xff\xff\xfe"),
        ("bigint", 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        ("double", 1.0, b"\x3f\xf0\x00\x00\x00\x00\x00\x00"),
        ("string", "é", b"\xc3\xa9"),
        ("string", "", b""),
        ("bytes", b"\xff", b"\xff"),
    ],
)
def test_values_have_the_bytes_of_kafkas_serializers(kind: str, value: Any, payload: bytes) -> None:
    assert serde(f"C {kind}").encode((value,)) == payload
    assert serde(f"C {kind}").decode(payload) == (value,)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("int", b""), ("int", b"12345678"), ("bigint", b"1234"), ("double", b"1"), ("string", b"\xff")],
)
def test_payloads_of_other_lengths_are_bad_records(kind: str, payload: bytes) -> None:
    with pytest.raises(BadRecord, match='column "C"'):
        serde(f"C {kind}").decode(payload)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("boolean", "BOOLEAN"),
        ("decimal(4,2)", "DECIMAL"),
        ("date", "DATE"),
        ("array<int>", "ARRAY"),
        ("timestamp", "TIMESTAMP"),
    ],
)
def test_other_types_are_refused(kind: str, name: str) -> None:
    with pytest.raises(FormatUnsupported, match=f"The 'KAFKA' format does not support type '{name}'"):
        serde(f"C {kind}")


def test_several_columns_are_refused() -> None:
    with pytest.raises(FormatUnsupported, match=r"only supports a single field. Got: \[`A` INTEGER, `B` STRING\]"):
        serde("A int, B string")


def test_none_has_no_columns() -> None:
    maker = find_format("NONE", {})
    assert maker.serde([], is_key=True, wrapped=False).decode(b"x") is None
    with pytest.raises(FormatUnsupported, match=r"no columns are defined. Got: \[`K` STRING KEY\]"):
        maker.check(Schema.parse("K string").fields, is_key=True, wrapped=False)


def test_payloads_without_columns_decode_to_empty_rows() -> None:
    for name in ("KAFKA", "DELIMITED", "JSON"):
        made = find_format(name, {}).serde([], is_key=False, wrapped=True)
        assert made.decode(made.encode(())) == ()
        assert made.decode(None) is None


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownFormat, match="Unknown format: FOO") as caught:
        find_format("FOO", {})
    assert isinstance(caught.value, StatementError)
    assert "AVRO, DELIMITED, JSON" in str(caught.value.fix)


@pytest.mark.parametrize("name", ["JSON", "KAFKA", "NONE", "AVRO", "PROTOBUF"])
def test_an_option_of_another_format_is_refused(name: str) -> None:
    with pytest.raises(BadFormatOption, match="delimiter"):
        find_format(name, {"VALUE_DELIMITER": ","})


def test_names_match_in_any_case() -> None:
    for component in components("format"):
        for name in (component.name.lower(), component.name.upper(), component.name.title()):
            find_format(name, {})


def test_which_formats_wrap_single_values() -> None:
    assert wrappings("json") == wrappings("AVRO") == {True, False}
    assert wrappings("KAFKA") == wrappings("delimited") == {False}


def test_a_missing_library_is_named_with_its_extra() -> None:
    for library in ("no_such_library", "no_such_library.inner", "google.no_such_library"):
        with pytest.raises(MissingDependency, match="needs the library") as caught:
            require_library(library, "avro")
        assert caught.value.fix == "pip install 'headrace[avro]'"


def test_libraries_of_extras_are_imported_only_when_used() -> None:
    script = (
        "import sys, headrace.formats.lookup; print([m for m in ('fastavro', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
