"""For any input the parser returns statements, or errors with a place inside the text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lang.ksql.grammar.automaton import words
from tests.ksql_parsing import parse
from tests.unit.lang.ksql.corpus import cases

OWN = (
    "CREATE TABLE o AS SELECT a, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) WHERE a->b[1] > -1.5E3 GROUP BY a;",
    "INSERT INTO s (a, `b`) VALUES (ARRAY[1], MAP('x' := 2)); DEFINE x = 'y'; SELECT '${x}', ${x} FROM s /* c */;",
    "SELECT F(a, (x, y) => x + y) FROM s LEFT JOIN t WITHIN (1 DAY, 2 DAYS) ON s.a = t.a -- end\n;",
)
LITERALS = (
    "a",
    "`b`",
    '"c"',
    "'text'",
    "'",
    "1",
    "1.5",
    "1E5",
    "99999999999999999999",
    "${x}",
    "=>",
    "/*",
    "--",
    "\n",
    "é",
    "\u2028",
)


def _check(text: str) -> None:
    parsed = parse(text)
    for error in parsed.errors:
        assert error.span is not None
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert 1 <= error.span.line <= max(1, len(text.splitlines()))
        assert error.where
        assert error.fix
        assert str(error)
    for statement, own_text in parsed.statements:
        assert text[statement.span.start : statement.span.end]
        assert own_text


@given(st.lists(st.sampled_from([*words().values(), *LITERALS]), max_size=40))
def test_random_tokens_are_parsed_or_refused(soup: list[str]) -> None:
    _check(" ".join(soup))


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    _check(text)


@settings(max_examples=150)
@given(st.data())
def test_mutated_statements_are_parsed_or_refused(data: st.DataObject) -> None:
    scripts = [*OWN, *(text for _, text, _ in cases())]
    text = data.draw(st.sampled_from(scripts))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 10)))
        text = text[:start] + data.draw(st.sampled_from(["", *LITERALS, *words().values()])) + text[end:]
    _check(text)
