"""Creates the message of a syntax error: what was found, what was expected, and what was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from difflib import get_close_matches

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql.grammar.automaton import END, Refused, words
from headrace.lang.ksql.grammar.expression_builder import UNITS
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.ksql.grammar.tokens import Kind, Token, end_of
from headrace.span import NOWHERE

_GROUPS: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"INTEGER", "IDENTIFIER", "CASE", "CAST", "NOT", "TRUE"}), "an expression"),
    (frozenset({"INTEGER", "IDENTIFIER", "CASE", "CAST"}), "a value"),
    (frozenset({"INTEGER", "TEXT", "TRUE"}), "a literal"),
    (frozenset({"IDENTIFIER", "ARRAY", "MAP", "STRUCT"}), "a type"),
    (frozenset({"SECONDS", "DAYS"}), "a unit of time such as SECONDS"),
    (frozenset({"=", "<", "BETWEEN"}), "a comparison"),
    (frozenset({"+", "*"}), "an operator"),
)
"""If all of a group are accepted, they and related terminals are summarized under one name."""
_LITERAL = {"INTEGER", "DECIMAL", "DOUBLE", "TEXT", "TRUE", "FALSE", "NULL", "-"}
_TYPE = {"IDENTIFIER", "QUOTED", "ARRAY", "MAP", "STRUCT"}
_EXPRESSION = {*_LITERAL, *_TYPE, "CASE", "CAST", "NOT", "_LAMBDA_OPEN", "(", "+", "*"}
_KIN: Mapping[str, Set[str]] = {
    "an expression": _EXPRESSION,
    "a value": _EXPRESSION,
    "a literal": _LITERAL,
    "a type": _TYPE,
    "a unit of time such as SECONDS": set(UNITS),
    "a comparison": {"=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "LIKE", "IS", "NOT"},
    "an operator": {"+", "-", "*", "/", "%", "||", "AT", "[", "->", "AND", "OR"},
}
_NAMED = {
    "IDENTIFIER": "a name",
    "TEXT": "a text in single quotes",
    "INTEGER": "a whole number",
    "DECIMAL": "a number",
    END: "the end of the statement",
}
_SAID_BY_OTHERS = frozenset({"QUOTED", "DOUBLE", "_LAMBDA_OPEN"})
MAX_EXPECTED = 8


def syntax_error(text: str, statement: Sequence[Token], refused: Refused) -> KsqlSyntaxError:
    """Returns the error for a token (or the end) that the grammar rejected."""
    accepted = _written(refused.accepted)
    expected = expected_text(accepted)
    token = refused.token
    if token is None:
        span = end_of(text, statement[-1]) if statement else NOWHERE
        what = f"Syntax error: the statement ends too early, expected {expected}"
    else:
        span, what = token.span, f'Syntax error at or near "{_short(token.text)}": expected {expected}'
    fix = _fix(statement, refused) or f"write {expected} here"
    return KsqlSyntaxError(what, span=span, fix=fix)


def expected_text(accepted: frozenset[str]) -> str:
    """`"," or FROM`: describes what is accepted at a position."""
    left, said = set(accepted), []
    for members, name in _GROUPS:
        if members <= left:
            said.append(name)
            left -= _KIN[name]
    names = sorted(_NAMED[word] for word in left if word in _NAMED)
    keywords = sorted(filter(_is_keyword, left))
    symbols = sorted(f'"{word}"' for word in left if not word.strip("_")[:1].isalpha() and word not in _NAMED)
    found = [*said, *names, *symbols, *keywords]
    *shown, last = found if len(found) <= MAX_EXPECTED else [*found[:MAX_EXPECTED], "something else"]
    return f"{', '.join(shown)} or {last}" if shown else last


def _fix(statement: Sequence[Token], refused: Refused) -> str | None:
    token, accepted = refused.token, _written(refused.accepted)
    if token is not None and token.kind is Kind.WORD and token.value.upper() in RESERVED and "IDENTIFIER" in accepted:
        return f'"{token.value}" is a keyword: write `{token.value.upper()}` if it is meant as a name'
    place = len(statement) if token is None else next(i for i, t in enumerate(statement) if t is token)
    # A misspelt keyword is often read as a name, and only the word after it is rejected.
    earlier = statement[place - 1] if place else None
    meant = _meant(token, accepted, 0.7) or _meant(earlier, accepted, 0.7)
    return meant or _meant(earlier, _written(refused.before), 0.8)


def _meant(suspect: Token | None, accepted: frozenset[str], likeness: float) -> str | None:
    if suspect is None or suspect.kind is not Kind.WORD or suspect.value.upper() in RESERVED | accepted:
        return None
    close = get_close_matches(suspect.value.upper(), sorted(filter(_is_keyword, accepted)), 1, likeness)
    return f'did you mean {close[0]} instead of "{suspect.value}"?' if close else None


def _written(terminals: frozenset[str]) -> frozenset[str]:
    return frozenset(words().get(name, name) for name in terminals)


def _is_keyword(word: str) -> bool:
    return word.isalpha() and word not in _NAMED and word not in _SAID_BY_OTHERS


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
