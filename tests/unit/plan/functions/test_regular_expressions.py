import re
from typing import Any

import pytest

from headrace.plan.functions.java_pattern import compiled
from tests.unit.plan.functions.calling import run

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("REGEXP_EXTRACT", ("test.", "some_test_string"), "test_"),
    ("REGEXP_EXTRACT", ("test.", "anothertest"), None),
    ("REGEXP_EXTRACT", ("(.*) (.*)", "steven zhang", 2), "zhang"),
    ("REGEXP_EXTRACT", ("(a)|(b)", "a", 2), None),
    ("REGEXP_EXTRACT", ("test.", None), None),
    ("REGEXP_EXTRACT_ALL", ("test.", "some_test_string_testabab"), ["test_", "testa"]),
    ("REGEXP_EXTRACT_ALL", ("test.", "nothing"), []),
    ("REGEXP_EXTRACT_ALL", (r"(\w+) ", "hello there ", 1), ["hello", "there"]),
    ("REGEXP_REPLACE", ("a1b22", "[0-9]+", "-"), "a-b-"),
    ("REGEXP_REPLACE", ("john smith", "(\\w+) (\\w+)", "$2, $1!"), "smith, john!"),
    ("REGEXP_REPLACE", ("ab", "(?<x>a)", "${x}$12\\$"), "aa2$b"),
    ("REGEXP_REPLACE", ("abc", "", "-"), "-a-b-c-"),
    ("REGEXP_REPLACE", (None, "a", "b"), None),
    ("REGEXP_SPLIT_TO_ARRAY", ("a1b22c", "[0-9]+"), ["a", "b", "c"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("1a1", "1"), ["", "a", ""]),
    ("REGEXP_SPLIT_TO_ARRAY", ("x-y", ""), ["x", "-", "y"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("abc", "z"), ["abc"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("", "z"), [""]),
    ("REGEXP_SPLIT_TO_ARRAY", ("aXbXc", "(x|X)"), ["a", "b", "c"]),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_it_gives(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert run(name, *arguments) == result


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\p{Alpha}+", "12abC3", "abC"),
        (r"[\p{Digit}x]+", "ab1x2", "1x2"),
        (r"\P{Alpha}+", "ab12", "12"),
        (r"\p{L}+", "1äöü2", "äöü"),
        (r"\p{Lu}", "aÄ", "Ä"),
        (r"\p{Punct}", "a]", "]"),
        (r"\w+", "ä1", "1"),
        (r"\d", "٣4", "4"),
        (r"\Qa.b\E+", "aab a.bb", "a.bb"),
        (r"(?<y>a)\k<y>", "baa", "aa"),
        (r"a++b", "aab", "aab"),
        (r".+", "a\rb", "a"),
        (r"(?s).+", "a\rb", "a\rb"),
        (r"[.]", "a.", "."),
        (r"b\Z", "ab\n", "b"),
        (r"\x{1F600}", "a😀", "😀"),
        (r"(?i)ABC", "xabc", "abc"),
        (r"\hb", "a\tb", "\tb"),
    ],
)
def test_javas_patterns_mean_what_they_mean_in_java(pattern: str, text: str, found: str) -> None:
    match = compiled(pattern).search(text)
    assert match is not None
    assert match[0] == found


@pytest.mark.parametrize("pattern", ["(", "[a[bc]]", "[a-z&&[^b]]", "a(?i)b", r"\p{Nonsense}"])
def test_what_cannot_be_said_in_python_is_refused(pattern: str) -> None:
    with pytest.raises((ValueError, re.error)):
        run("REGEXP_EXTRACT", pattern, "abc")


@pytest.mark.parametrize(("pattern", "replacement"), [("a", "$"), ("a", "$9"), ("a", "\\"), ("a", "${x}")])
def test_a_replacement_must_name_groups_that_exist(pattern: str, replacement: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        run("REGEXP_REPLACE", "abc", pattern, replacement)
