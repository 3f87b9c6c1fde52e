"""Fixes for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str], similarity: float = 0.6) -> str | None:
    """Returns the known name that is most similar to a misspelt one; upper and lower case are the same."""
    folded = {one.upper(): one for one in known}
    matches = get_close_matches(name.upper(), folded, 1, similarity)
    return folded[matches[0]] if matches else None


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """Returns the fix for an unknown name: the known name that is most similar, or else the given sentence."""
    near = closest(name, known)
    return otherwise if near is None else f'did you mean "{near}"?'
