"""Decides when a word of KSQL is a keyword and when it is a name."""

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
"""Never a name unless quoted. All other keywords are names wherever the keyword is not allowed."""

NUMBER = "0"
"""Stands for any integer."""
ONLY_BEFORE: Mapping[str, tuple[str, ...]] = {
    "ARRAY": ("[", "<"),
    "MAP": ("(", "<"),
    "STRUCT": ("(", "<", "<>"),
    "AT": ("TIME",),
    "FOR": ("SYSTEM_TIME", NUMBER),
    "ABSENT": ("FOR",),
}
"""Keywords only if one of these follows; so `SELECT map, at FROM ...` names two columns."""


def may_be_keyword(word: str, following: str) -> bool:
    following = NUMBER if following.isdecimal() else following
    return following in ONLY_BEFORE.get(word, (following,))


@cache
def keywords() -> frozenset[str]:
    """Returns every keyword of the grammar, extracted from its text, so that the parser need not be built."""
    grammar = files("headrace.lang.ksql.grammar").joinpath("grammar.lark").read_text()
    return frozenset(re.findall(r'"([A-Z_]+)"', re.sub(r"(?m)//.*$", "", grammar)))
