"""LIKE beside a matcher that tries everything."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.scalar_operations import like, like_pattern

TEXTS = st.text("ab%_\\\n", max_size=8)


def naive(text: str, pattern: str, escape: str | None) -> bool:
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == escape:
        first, rest = (rest[0], rest[1:]) if rest else (first, "")
        return text[:1] == first and naive(text[1:], rest, escape)
    if first == "%":
        return any(naive(text[at:], rest, escape) for at in range(len(text) + 1))
    return bool(text) and first in ("_", text[0]) and naive(text[1:], rest, escape)


@given(TEXTS, TEXTS, st.sampled_from([None, "\\", "a", "%"]))
def test_like_agrees_with_a_backtracking_matcher(text: str, pattern: str, escape: str | None) -> None:
    expected = naive(text, pattern, escape)
    assert like(text, pattern, escape) is expected
    written = regex.compile(like_pattern(pattern, escape), regex.DOTALL)
    assert (written.fullmatch(text) is not None) is expected  # as Spark is told


@pytest.mark.parametrize("part", ["a" * 5_000 + "b", "%".join("ab") * 200 + "c"], ids=["one long", "many"])
def test_like_takes_linear_time(part: str) -> None:
    began = time.process_time()
    assert not like("a" * 1_000_000, f"%{part}%", None)
    assert time.process_time() - began < 2
