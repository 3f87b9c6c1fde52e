"""Delimited lines as Apache Commons CSV splits and quotes them, and as ksqlDB types them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import BadFormatOption, BadRecord, FormatUnsupported
from headrace.formats.lookup import find_format
from headrace.schema import Field, Schema


def serde(columns: str, delimiter: str = ",", *, is_key: bool = False) -> Any:
    maker = find_format("DELIMITED", {"VALUE_DELIMITER": delimiter})
    return maker.serde(Schema.parse(columns).fields, is_key=is_key, wrapped=True)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "a", "a"),
        ("string", " a ", " a "),
        ("string", '"a,b"', "a,b"),
        ("string", '"say ""x"""', 'say "x"'),
        ("string", '"a\nb"', "a\nb"),
        ("string", 'a"b', 'a"b'),
        ("string", "", None),
        ("string", '""', None),
        ("int", "-1", -1),
        ("int", '"7"', 7),
        ("bigint", "+7", 7),
        ("double", "1e3", 1000.0),
        ("boolean", "TRUE", True),
        ("boolean", "yes", False),
        ("decimal(4,2)", "01.5", Decimal("1.50")),
        ("decimal(4,2)", "0", Decimal("0.00")),
        ("bytes", "IQ==", b"!"),
        ("date", "-10", -10),
        ("time", "10", 10),
        ("timestamp", "10", 10),
    ],
)
def test_lines_are_decoded(kind: str, text: str, value: Any) -> None:
    got = serde(f"A int, C {kind}").decode(f"0,{text}".encode())
    assert repr(got) == repr((0, value))


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ("A int", "x"),
        ("A int", "1.5"),
        ("A int", "2147483648"),
        ("A int", " 1"),
        ("A double", "x"),
        ("A decimal(3,2)", "10"),
        ("A decimal(3,2)", "1.555"),
        ("A bytes", "?"),
        ("A time", "86400000"),
        ("A int, B int", "1"),
        ("A int, B int", "1,2,3"),
        ("A string", '"a'),
        ("A string", '"a"b'),
    ],
)
def test_invalid_lines_are_refused(columns: str, line: str) -> None:
    with pytest.raises(BadRecord):
        serde(columns).decode(line.encode())


def test_only_the_first_line_counts() -> None:
    assert serde("A int, B string").decode(b"\n1,x\r\n2,y\n") == (1, "x")


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ((1, "a"), "1,a"),
        ((-1, "a"), '"-1",a'),
        ((None, None), ","),
        ((1, ""), "1,"),
        ((1, "-a"), "1,-a"),
        ((1, "#a"), '1,"#a"'),
        ((1, " a"), '1," a"'),
        ((1, "a "), '1,"a "'),
        ((1, "a b"), "1,a b"),
        ((1, "a,b"), '1,"a,b"'),
        ((1, 'a"b'), '1,"a""b"'),
        ((1, "a\nb"), '1,"a\nb"'),
        ((1, "é"), "1,é"),
    ],
)
def test_rows_are_encoded(row: tuple[Any, ...], line: str) -> None:
    assert serde("A int, B string").encode(row) == line.encode()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("string", "é", '"é"'),
        ("string", "", '""'),
        ("string", "_a", '"_a"'),
        ("string", None, ""),
        ("double", 1e7, "1.0E7"),
        ("decimal(10,3)", Decimal("1.000"), "1.000"),
        ("boolean", True, "true"),
        ("bytes", b"!", "IQ=="),
        ("date", -10, '"-10"'),
    ],
)
def test_the_first_field_is_quoted_more_often(kind: str, value: Any, text: str) -> None:
    assert serde(f"A {kind}").encode((value,)) == text.encode()


@pytest.mark.parametrize(("given", "used"), [("|", "|"), ("TAB", "\t"), ("tab", "\t"), ("SPACE", " "), ("$", "$")])
def test_delimiters_are_configurable(given: str, used: str) -> None:
    made = serde("A int, B string", given)
    assert made.encode((1, f"a{used}")) == f'1{used}"a{used}"'.encode()
    assert made.decode(f"1{used}b".encode()) == (1, "b")


@pytest.mark.parametrize("given", ["", " ", "\t", "<~>", "ab", '"', "\n"])
def test_invalid_delimiters_are_refused(given: str) -> None:
    with pytest.raises(BadFormatOption, match="elimiter"):
        find_format("DELIMITED", {"KEY_DELIMITER": given})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.list_(pa.int32()), "ARRAY"),
        (pa.map_(pa.string(), pa.int32()), "MAP"),
        (pa.struct([("x", pa.int32())]), "STRUCT"),
    ],
)
def test_nested_types_are_refused(kind: pa.DataType, name: str) -> None:
    with pytest.raises(FormatUnsupported, match=f"The 'DELIMITED' format does not support type '{name}', column: `C`"):
        find_format("DELIMITED", {}).check([Field("C", kind)], is_key=False, wrapped=True)
