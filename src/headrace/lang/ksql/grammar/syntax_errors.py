"""Creates the message of a syntax error: what was found, what was expected, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql.grammar.automaton import END, Refused, position, words
from headrace.lang.ksql.grammar.corrections import Rejection, correction, is_keyword, quoted_text
from headrace.lang.ksql.grammar.expression_builder import UNITS
from headrace.lang.ksql.grammar.tokens import Token, end_of
from headrace.span import NOWHERE

_LITERAL = frozenset({"INTEGER", "DECIMAL", "DOUBLE", "TEXT", "TRUE", "FALSE", "NULL", "-"})
_TYPE = frozenset({"IDENTIFIER", "QUOTED", "ARRAY", "MAP", "STRUCT"})
_EXPRESSION = _LITERAL | _TYPE | {"CASE", "CAST", "NOT", "_LAMBDA_OPEN", "(", "+"}
# fmt: off
_STATEMENT = frozenset((
    "ALTER", "ASSERT", "CREATE", "DEFINE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "INSERT", "KILL", "LIST", "MUTE",
    "PAUSE", "PRINT", "RESUME", "RUN", "SELECT", "SET", "SHOW", "TERMINATE", "UNDEFINE", "UNMUTE", "UNSET",
))
_LISTED = frozenset((
    "ALERTS", "ALL", "CONNECTOR", "CONNECTORS", "FUNCTIONS", "NOTIFIERS", "PROCESSES", "PROPERTIES", "QUERIES", "SINK",
    "SOURCE", "STREAMS", "TABLES", "TOPICS", "TYPES", "VARIABLES",
))
_CLAUSE = frozenset(("WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "ORDER", "LIMIT", "UNION"))
_OPERATOR = frozenset((
    "+", "-", "*", "/", "%", "||", "[", "->", ".", "=", "<>", "<", "<=", ">", ">=",
    "AND", "OR", "AT", "BETWEEN", "IN", "LIKE", "IS", "NOT",
))
# fmt: on

_CONSTRUCTS: Sequence[tuple[frozenset[str], frozenset[str], str]] = (
    (frozenset({"CREATE", "SELECT", "INSERT"}), _STATEMENT, "a statement (CREATE, SELECT, INSERT ...)"),
    (
        frozenset({"STREAMS", "NOTIFIERS"}),
        _LISTED,
        "STREAMS, TABLES, TOPICS, QUERIES, PROCESSES, FUNCTIONS, TYPES, ALERTS, NOTIFIERS, PROPERTIES or VARIABLES",
    ),
    (frozenset({"*", "IDENTIFIER", "CASE"}), _EXPRESSION | {"*", "DISTINCT"}, "a column name, an expression or *"),
    (frozenset({"INTEGER", "IDENTIFIER", "CASE"}), _EXPRESSION, "an expression"),
    (frozenset({"INTEGER", "TEXT", "TRUE"}), _LITERAL, "a literal"),
    (frozenset({"INTEGER", "DOUBLE"}), _LITERAL, "a number"),
    (frozenset({"IDENTIFIER", "ARRAY", "STRUCT"}), _TYPE, "a type"),
    (frozenset({"SECONDS", "DAYS"}), frozenset(UNITS), "a unit of time (SECONDS, MINUTES ...)"),
    (frozenset({"IDENTIFIER", "AS"}), frozenset({"IDENTIFIER", "QUOTED", "AS"}), "an alias"),
    (frozenset({"IDENTIFIER"}), frozenset({"IDENTIFIER", "QUOTED"}), "a name"),
    (frozenset({"TEXT"}), frozenset({"TEXT"}), "a string in single quotes"),
    (frozenset({"INTEGER"}), frozenset({"INTEGER"}), "an integer"),
    (frozenset({"JOIN", "LEFT"}), frozenset({"INNER", "JOIN", "LEFT", "RIGHT", "FULL"}), "JOIN"),
    (frozenset({"WHERE", "EMIT"}), _CLAUSE, "a clause (WHERE, GROUP BY, EMIT ...)"),
)
"""If all of the first set are accepted, all of the second are summarized under one name."""


def syntax_error(text: str, statement: Sequence[Token], refused: Refused, start: str) -> KsqlSyntaxError:
    """Returns the error for a token (or the end) that the grammar rejected."""
    accepted = _spellings(refused.accepted)
    place = len(statement) if refused.token is None else position(statement, refused.token)
    suggested = correction(Rejection(statement, place, accepted, _spellings(refused.before), start))
    wrong = refused.token if suggested is None else suggested.token
    at = place if wrong is None else position(statement, wrong)
    if wrong is None:
        what, span = "the statement ends too early", end_of(text, statement[-1]) if statement else NOWHERE
    else:
        what, span = f"unexpected {quoted_text(wrong)}", wrong.span
    fix = f"write {expected_text(accepted)} here" if suggested is None else suggested.fix
    return KsqlSyntaxError(f"{what}{_context(statement[:at])}", span=span, fix=fix)


def expected_text(accepted: frozenset[str]) -> str:
    """`"," or FROM`: describes what is accepted at a position."""
    *others, last = _constructs(set(accepted))
    return f"{', '.join(others)} or {last}" if others else last


def _constructs(left: set[str]) -> Iterator[str]:
    left.discard("IF")
    if "/" in left:
        left -= {
            "TEXT",
            "(",
        }  # a name may be followed by a string (a typed literal) or arguments, which is seldom meant
    for members, kin, name in _CONSTRUCTS:
        if members <= left:
            left -= kin
            yield name
    operators = left & _OPERATOR if {"+", "*"} <= left or {"=", "<"} <= left else set()
    if "OR" not in left:
        operators -= {"AND"}  # the one of BETWEEN
    left -= operators
    yield from sorted(filter(is_keyword, left))
    yield from sorted(f'"{word}"' for word in left if not word.strip("_")[:1].isalpha() and word != END)
    if operators:
        yield "an operator"
    if END in left:
        yield "the end of the statement"


def _context(before: Sequence[Token]) -> str:
    """` after "SELECT *"`: the last two tokens before the error."""
    if not before:
        return ""
    last, *others = reversed(before[-2:])
    apart = " " if others and others[0].span.end != last.span.start else ""
    excerpt = "".join(token.text for token in others) + apart + last.text
    return f' after "{excerpt if len(excerpt) <= _MAX_CONTEXT else f"...{excerpt[3 - _MAX_CONTEXT :]}"}"'


def _spellings(terminals: frozenset[str]) -> frozenset[str]:
    return frozenset(words().get(name, name) for name in terminals)


_MAX_CONTEXT = 40
