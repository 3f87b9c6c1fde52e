import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headrace.errors import AmbiguousCall, ResultTooLong
from headrace.plan import scalar_operations
from headrace.plan.functions.scalars import arrays, json, strings
from tests.unit.plan.functions.function_call import run

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("CHR", (75,), "K"),
    ("CHR", (22909,), "好"),
    ("CHR", (0x1F600,), "😀"),
    ("CHR", (-1,), None),
    ("CHR", (0x110000,), None),
    ("CHR", ("\\u004b",), "K"),
    ("CHR", ("\\ud820\\udeb8",), "𘊸"),
    ("CHR", ("\\u004b\\n",), "K\n"),
    ("CHR", ("75",), None),
    ("CHR", ("004b00",), None),
    ("CHR", ("",), None),
    ("CONCAT", ("a", None, "b"), "ab"),
    ("CONCAT", ("a",), "a"),
    ("CONCAT", (b"a", None, b"\xff"), b"a\xff"),
    ("CONCAT_WS", (",", "a", None, "", "b"), "a,,b"),
    ("CONCAT_WS", (None, "a", "b"), None),
    ("CONCAT_WS", (",", None), ""),
    ("CONCAT_WS", (b"-", b"a", None, b"b"), b"a-b"),
    ("ELT", (1, "a", "b"), "a"),
    ("ELT", (2, "a", None), None),
    ("ELT", (0, "a"), None),
    ("ELT", (3, "a", "b"), None),
    ("ELT", (None, "a"), None),
    ("FIELD", ("hello", "world", "hello"), 2),
    ("FIELD", ("hello", None, "world"), 0),
    ("FIELD", (None, None, "world"), 0),
    ("INITCAP", ("the   Quick br0wn fOx",), "The   Quick Br0wn Fox"),
    ("INITCAP", ("some_string",), "Some_string"),
    ("INITCAP", ("",), ""),
    ("INITCAP", (None,), None),
    ("LCASE", ("ÀB",), "àb"),
    ("UCASE", ("straße",), "STRASSE"),
    ("LEN", ("ABC",), 3),
    ("LEN", ("",), 0),
    ("LEN", ("好😀",), 2),
    ("LEN", (b"\x00\x01",), 2),
    ("REPLACE", ("anaconda", "a", "o"), "onocondo"),
    ("REPLACE", ("ab", "", "-"), "-a-b-"),
    ("REPLACE", ("anaconda", None, "o"), None),
    ("REPLACE", ("anaconda", "a", None), None),
    ("TRIM", (" \t\n\x00a b\u00a0 ",), "a b\u00a0"),
    ("TRIM", ("",), ""),
    ("INSTR", ("corporate floor", "or"), 2),
    ("INSTR", ("corporate floor", "or", 3), 5),
    ("INSTR", ("corporate floor", "or", 4), 5),
    ("INSTR", ("corporate floor", "or", 3, 2), 14),
    ("INSTR", ("corporate floor", "or", -4), 5),
    ("INSTR", ("corporate floor", "or", -4, 2), 2),
    ("INSTR", ("corporate floor", "or", -4, 3), 0),
    ("INSTR", ("short", "or", -4), 0),
    ("INSTR", ("short", "or", 99), 0),
    ("INSTR", ("short", "or", 0), 0),
    ("INSTR", ("short", "or", 1, 0), 0),
    ("INSTR", (None, "or"), 0),
    ("SUBSTRING", ("some_string", 6), "string"),
    ("SUBSTRING", ("some_string", 6, 3), "str"),
    ("SUBSTRING", ("some_string", 0, 2), "so"),
    ("SUBSTRING", ("some_string", -6, 3), "str"),
    ("SUBSTRING", ("abc", -9, 2), "ab"),
    ("SUBSTRING", ("short", 6), ""),
    ("SUBSTRING", ("short", 2, -1), ""),
    ("SUBSTRING", ("short", 2, 2**31 - 1), "hort"),
    ("SUBSTRING", ("short", None), None),
    ("SUBSTRING", (b"abcd", 2, 2), b"bc"),
    ("SUBSTRING", (b"abcd", -2), b"cd"),
    ("LPAD", ("foo", 7, "Bar"), "BarBfoo"),
    ("LPAD", ("foo", 2, "Bar"), "fo"),
    ("LPAD", ("", 7, "Bar"), "BarBarB"),
    ("LPAD", ("foo", -1, "Bar"), None),
    ("LPAD", ("foo", 7, ""), None),
    ("LPAD", ("foo", 7, None), None),
    ("LPAD", (b"yes", 5, b"no"), b"noyes"),
    ("RPAD", ("foo", 7, "Bar"), "fooBarB"),
    ("RPAD", (b"yes", 8, b"no"), b"yesnonon"),
    ("RPAD", (b"yes", 0, b"no"), b""),
    ("RPAD", (b"yes", 3, b""), None),
    ("SPLIT", ("..a..", "."), ["", "", "a", "", ""]),
    ("SPLIT", ("a$$b", "$$"), ["a", "b"]),
    ("SPLIT", ("abc", ""), ["a", "b", "c"]),
    ("SPLIT", ("", "."), [""]),
    ("SPLIT", ("", ""), [""]),
    ("SPLIT", ("abc", None), None),
    ("SPLIT", (b".abc.", b"."), [b"", b"abc", b""]),
    ("SPLIT", (b"ab", b""), [b"a", b"b"]),
    ("SPLIT_TO_MAP", ("apple:=green/cherry:=red", "/", ":="), {"apple": "green", "cherry": "red"}),
    ("SPLIT_TO_MAP", ("a:=1/a:=2/b/c:=3:=4/d:=", "/", ":="), {"a": "2", "d": ""}),
    ("SPLIT_TO_MAP", ("a:=1", "", ":="), None),
    ("SPLIT_TO_MAP", ("a:=1", "/", None), None),
    ("MASK", ("My Test $123",), "Xx-Xxxx--nnn"),
    ("MASK", ("Aa1-", "*", None, "", "?"), "*a1?"),
    ("MASK", (None,), None),
    ("MASK", ("好",), "-"),
    ("MASK_LEFT", ("Ab1c", 2), "Xx1c"),
    ("MASK_LEFT", ("Ab1c", 9), "Xxnx"),
    ("MASK_RIGHT", ("Ab1c", 2), "Abnx"),
    ("MASK_RIGHT", ("Ab1c", 9), "Xxnx"),
    ("MASK_KEEP_LEFT", ("Ab1c", 2), "Abnx"),
    ("MASK_KEEP_LEFT", ("Ab1c", 9), "Ab1c"),
    ("MASK_KEEP_RIGHT", ("Ab1c", 2), "Xx1c"),
    ("MASK_KEEP_RIGHT", ("Ab1c", 1, None, None, "#", None), "Ab#c"),
    ("MASK_KEEP_RIGHT", ("Ab1c", 9), "Ab1c"),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_a_function_returns_its_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert run(name, *arguments) == result


def test_a_negative_number_of_characters_to_mask_is_an_error() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        run("MASK_LEFT", "abc", -1)


def test_an_escape_without_four_digits_is_an_error() -> None:
    with pytest.raises(ValueError, match=re.escape("must follow \\u")):
        run("CHR", "\\u004b\\u12")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("LPAD", ("a", 2**31 - 1, "b")),
        ("RPAD", (b"a", 2**31 - 1, b"b")),
        ("REPLACE", ("a" * 10_000, "a", "b" * 10_000)),
        ("REPLACE", ("a" * 10_000, "", "b" * 10_000)),
        ("REGEXP_REPLACE", ("a" * 10_000, "a", "b" * 10_000)),
        ("GENERATE_SERIES", (1, 2**31 - 1)),
        ("GENERATE_SERIES", (2**31 - 1, 1, -1)),
    ],
)
def test_an_oversized_result_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ResultTooLong):
        run(name, *arguments)


def test_the_length_of_null_is_ambiguous() -> None:
    with pytest.raises(AmbiguousCall):
        run("LEN", None)


@pytest.mark.parametrize(
    ("make", "much"),
    [
        (strings.concat, "x" * (9 << 20)),
        (strings.concat_bytes, b"x" * (9 << 20)),
        (partial(strings.concat_ws, "-"), "x" * (9 << 20)),
        (scalar_operations.concat_text, "x" * (9 << 20)),
        (arrays.joined, [0] * 600_000),
        (json.concat, "[" + "1," * (5 << 20) + "1]"),
    ],
    ids=["concat", "bytes", "concat_ws", "plus", "arrays", "json"],
)
def test_repeated_concatenation_is_limited(make: Callable[..., Any], much: Any) -> None:
    with pytest.raises(ResultTooLong):
        make(much, much)


def test_masks_of_a_long_text_take_a_table_and_not_a_call_per_character() -> None:
    began = time.thread_time()
    assert run("MASK", "Ab1-" * 2_000_000)[:4] == "Xxn-"
    assert run("MASK", "Äb1é" * 500_000)[:4] == "Xxnx"
    assert time.thread_time() - began < 2.0  # with a call per character it takes ten times as long
