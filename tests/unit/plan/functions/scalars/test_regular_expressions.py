import time
from typing import Any

import pytest
import regex

from headrace.errors import PatternTooSlow
from headrace.plan.functions.java.regex import compile_pattern
from tests.unit.plan.functions.function_call import run

_UUID = "123e4567-e89b-12d3-a456-426614174000"
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
    ("REGEXP_REPLACE", ("axb", "x*", "-"), "-a--b-"),
    ("REGEXP_REPLACE", ("äÄ", "(?i)ä", "-"), "-Ä"),
    ("REGEXP_REPLACE", (None, "a", "b"), None),
    ("REGEXP_SPLIT_TO_ARRAY", ("a1b22c", "[0-9]+"), ["a", "b", "c"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("1a1", "1"), ["", "a", ""]),
    ("REGEXP_SPLIT_TO_ARRAY", ("x-y", ""), ["x", "-", "y"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("abc", "z"), ["abc"]),
    ("REGEXP_SPLIT_TO_ARRAY", ("", "z"), [""]),
    ("REGEXP_SPLIT_TO_ARRAY", ("aXbXc", "(x|X)"), ["a", "b", "c"]),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_a_function_returns_its_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
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
        (r"(?i:B)c", "abc", "bc"),
        (r"(?<=a)b(?!d)(?=c)", "abc", "b"),
        (r"(?>a+)b", "aab", "aab"),
        (r"[a{2}(?:]+", "x{2:}(a", "{2:}(a"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "x" + _UUID, _UUID),
        (r"\d{1,3}(?:\.\d{1,3}){3}", "at 10.0.0.12", "10.0.0.12"),
    ],
)
def test_patterns_match_as_in_java(pattern: str, text: str, found: str) -> None:
    match = compile_pattern(pattern).search(text)
    assert match is not None
    assert match[0] == found


REFUSED = ["(", ")", "[a[bc]]", "[a-z&&[^b]]", "a(?i)b", r"\p{Nonsense}", "a{x}", "{", "a{,2}", "a{2,1}"]
BEYOND_JAVA = [
    "(?R)",
    "(a)(?1)",
    "(?|a|b)",
    "(?:abc){e<=1}",
    "(*FAIL)",
    r"\m",
    r"\K",
    r"\L<names>",
    "(?V1)a",
    "(?P<a>b)",
]
BOMBS = ["a{999999}", "((a{1000}){1000}){1000}", "(" * 200 + ")" * 200, "a" * 6000, r"\p{L}" * 300, "(?:[a-z]{99}){99}"]


@pytest.mark.parametrize("pattern", [*REFUSED, *BEYOND_JAVA, *BOMBS], ids=lambda pattern: pattern[:24])
def test_patterns_without_an_equivalent_in_python_are_refused(pattern: str) -> None:
    with pytest.raises((ValueError, regex.error)):
        run("REGEXP_EXTRACT", pattern, "abc")


@pytest.mark.parametrize(("pattern", "replacement"), [("a", "$"), ("a", "$9"), ("a", "\\"), ("a", "${x}")])
def test_a_replacement_must_name_groups_that_exist(pattern: str, replacement: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        run("REGEXP_REPLACE", "abc", pattern, replacement)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("REGEXP_EXTRACT", ("(a|aa)+$", "a" * 60 + "!")),
        ("REGEXP_EXTRACT", (r"(a|aa)+(?<!\1b)$", "a" * 60 + "!")),
        ("REGEXP_EXTRACT_ALL", ("(?=[^z]*z)a", "a" * 300_000)),
        ("REGEXP_REPLACE", ("a" * 60 + "!", "(a|aa)+$", "b")),
        ("REGEXP_SPLIT_TO_ARRAY", ("a" * 60 + "!", "(a|aa)+$")),
    ],
)
def test_a_backtracking_pattern_times_out(name: str, arguments: tuple[Any, ...]) -> None:
    began = time.process_time()
    with pytest.raises(PatternTooSlow):
        run(name, *arguments)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 18 + "a" + ")+" * 18,
        "(" * 39 + "a" + ")++" * 39,
        "(" * 17 + "a" + "){1,}" * 17,
        "(" * 20 + "a" + "){2}" * 20,
    ],
    ids=["plus", "possessive", "at least", "times"],
)
def test_a_pattern_with_a_huge_expansion_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[]a]+", "x]a", "]a"),
        ("[^]a]+", "]a xy", " xy"),
        (r"[\v]+", "a\n\x0b", "\n\x0b"),
        (r"[\h]+", "a \t", " \t"),
        ("a+b{2,}", "aabbb", "aabbb"),
        ("[+]", "a+", "+"),
    ],
)
def test_character_classes_match_as_in_java(pattern: str, text: str, found: str) -> None:
    match = compile_pattern(pattern).search(text)
    assert match is not None
    assert match[0] == found


@pytest.mark.parametrize("pattern", ["(?s:.)", r"\p{^L}", r"[\R]", r"[\H]"])
def test_patterns_with_another_meaning_in_python_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"support|not valid"):
        compile_pattern(pattern)
