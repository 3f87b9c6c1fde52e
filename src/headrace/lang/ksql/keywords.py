"""When a word of KSQL is a keyword and when it is a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

# fmt: off
RESERVED = frozenset((
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "CAST", "CREATE", "DELETE", "DISTINCT", "DROP", "ELSE", "END",
    "EXISTS", "FALSE", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO", "IS", "JOIN", "LEFT",
    "LIKE", "LIMIT", "NOT", "NULL", "ON", "OR", "OUTER", "RIGHT", "SELECT", "THEN", "TRUE", "UNION", "WHEN",
    "WHERE", "WINDOW", "WITH", "WITHIN",
))
# fmt: on
"""Never a name unless quoted. All other keywords are names wherever the keyword could not stand."""

NUMBER = "0"
"""Stands for any whole number."""
ONLY_BEFORE: Mapping[str, tuple[str, ...]] = {
    "ARRAY": ("[", "<"),
    "MAP": ("(", "<"),
    "STRUCT": ("(", "<", "<>"),
    "AT": ("TIME",),
    "FOR": ("SYSTEM_TIME", NUMBER),
    "ABSENT": ("FOR",),
}
"""Keywords only if this follows; so `SELECT map, at FROM ...` names two columns."""


def may_be_keyword(word: str, following: str) -> bool:
    following = NUMBER if following.isdecimal() else following
    return following in ONLY_BEFORE.get(word, (following,))


@cache
def keywords() -> frozenset[str]:
    """Every keyword of the grammar, found in its text: to show them, nothing needs to be built."""
    grammar = files("headrace.lang.ksql").joinpath("grammar.lark").read_text()
    return frozenset(re.findall(r'"([A-Z_]+)"', re.sub(r"(?m)//.*$", "", grammar)))
