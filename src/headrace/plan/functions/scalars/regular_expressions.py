"""Functions over Java's regular expressions."""

from __future__ import annotations

import regex

from headrace.plan.functions.declaration import Function, Overload, never_growing
from headrace.plan.functions.java.regex import compile_pattern, expand_replacement
from headrace.plan.limits import REGEX_TIMEOUT_SECONDS, check_items, check_length, report_regex_timeout

AREA = "regular expressions"


@report_regex_timeout
def extract(pattern: str, text: str, group: int = 0) -> str | None:
    match = compile_pattern(pattern).search(text, timeout=REGEX_TIMEOUT_SECONDS)
    return match[group] if match else None


@report_regex_timeout
def extract_all(pattern: str, text: str, group: int = 0) -> list[str | None]:
    matches: list[str | None] = []
    for match in compile_pattern(pattern).finditer(text, timeout=REGEX_TIMEOUT_SECONDS):
        check_items(len(matches))
        matches.append(match[group])
    return matches


@report_regex_timeout
def replace(text: str, pattern: str, replacement: str) -> str:
    total_length = 0

    def put_in(match: regex.Match[str]) -> str:
        nonlocal total_length
        part = expand_replacement(replacement, match)
        total_length += len(part)
        check_length(total_length)
        return part

    return compile_pattern(pattern).sub(put_in, text, timeout=REGEX_TIMEOUT_SECONDS)


@report_regex_timeout
def split(text: str, pattern: str) -> list[str]:
    """An empty match at the start splits nothing off; with an empty pattern neither does one at the end."""
    parts: list[str] = []
    start = 0
    for match in compile_pattern(pattern).finditer(text, timeout=REGEX_TIMEOUT_SECONDS):
        if match.end() == 0 or (not pattern and match.start() == len(text)):
            continue
        check_items(len(parts))
        parts.append(text[start : match.start()])
        start = match.end()
    return [*parts, text[start:]]


FUNCTIONS = (
    Function(
        "REGEXP_EXTRACT",
        "The first match of a pattern in a string, or one group of it; null without a match.",
        never_growing(
            Overload("(pattern: string, text: string) -> string", extract),
            Overload("(pattern: string, text: string, group: int) -> string", extract),
        ),
        ("REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2)", "'there'"),
        area=AREA,
    ),
    Function(
        "REGEXP_EXTRACT_ALL",
        "All matches of a pattern in a string, or one group of each.",
        (
            Overload("(pattern: string, text: string) -> array<string>", extract_all),
            Overload("(pattern: string, text: string, group: int) -> array<string>", extract_all),
        ),
        ("REGEXP_EXTRACT_ALL('(\\w+) ', 'hello there mr bean ', 1)", "ARRAY['hello', 'there', 'mr', 'bean']"),
        area=AREA,
    ),
    Function(
        "REGEXP_REPLACE",
        "Replaces all matches of a pattern; $1 in the replacement is the first group.",
        (Overload("(text: string, pattern: string, replacement: string) -> string", replace),),
        ("REGEXP_REPLACE('a1b22', '[0-9]+', '-')", "'a-b-'"),
        area=AREA,
    ),
    Function(
        "REGEXP_SPLIT_TO_ARRAY",
        "Splits a string at the matches of a pattern; an empty pattern splits it into characters.",
        (Overload("(text: string, pattern: string) -> array<string>", split),),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", "ARRAY['a', 'b', 'c']"),
        area=AREA,
    ),
)
