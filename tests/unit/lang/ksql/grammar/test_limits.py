"""Inputs designed to exhaust the parser's time or memory."""

from __future__ import annotations

import time

import pytest

from headrace.lang.ksql.grammar.limits import MAX_TOKENS
from headrace.lang.ksql.grammar.parser import count_statements
from tests.ksql_parsing import parse

DOUBLED = "DEFINE v0 = 'aaaaaaaa';" + "".join(f"DEFINE v{n + 1} = '${{v{n}}}${{v{n}}}';" for n in range(40))
BOMBS = {
    "open comments": "/*;" * 100_000,
    "open texts": "';" * 99_999,
    "brackets": "SELECT " + "(" * 9_000 + "1" + ")" * 8_999 + " FROM a;",
    "a long sum": "SELECT " + "1+" * 9_000 + "1 FROM a;",
    "many values": "SELECT * FROM a WHERE x IN (" + "1," * MAX_TOKENS + "1);",
    "doubled variables": DOUBLED,
    "one variable often": "DEFINE a = '" + "x + " * 4_000 + "x'; SELECT " + "${a} + " * 4_000 + "1 FROM s;",
    "a number without end": "SELECT " + "9" * 500_000 + " FROM a;",
    "digits behind the point": "SELECT 0." + "9" * 500_000 + "e999999999999 FROM a;",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_hostile_input_is_refused_quickly(text: str) -> None:
    began = time.process_time()
    parsed = parse(text)
    assert parsed.errors
    assert all(error.where for error in parsed.errors)
    assert time.process_time() - began < 10


def test_valid_and_invalid_statements_count_towards_the_limit() -> None:
    assert count_statements("SHOW STREAMS; nonsense; 'a;b'; -- c;\n/* ; */ SELECT") == 4
    assert count_statements("") == 0
