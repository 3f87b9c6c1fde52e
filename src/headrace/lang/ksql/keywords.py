"""When a word of KSQL is a keyword and when it is a name."""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
RESERVED = frozenset((
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "CAST", "CREATE", "DELETE", "DISTINCT", "DROP", "ELSE", "END",
    "EXISTS", "FALSE", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO", "IS", "JOIN", "LEFT",
    "LIKE", "LIMIT", "NOT", "NULL", "ON", "OR", "OUTER", "RIGHT", "SELECT", "THEN", "TRUE", "UNION", "WHEN",
    "WHERE", "WINDOW", "WITH", "WITHIN",
))
# fmt: on
"""Never a name unless quoted. All other keywords are names wherever the keyword could not stand."""

ONLY_BEFORE: Mapping[str, tuple[str, ...]] = {
    "ARRAY": ("[", "<"),
    "MAP": ("(", "<"),
    "STRUCT": ("(", "<", "<>"),
    "AT": ("TIME",),
    "FOR": ("SYSTEM_TIME",),
}
"""Keywords only if this follows; so `SELECT map, at FROM ...` names two columns."""


def may_be_keyword(word: str, following: str) -> bool:
    return following in ONLY_BEFORE.get(word, (following,))
