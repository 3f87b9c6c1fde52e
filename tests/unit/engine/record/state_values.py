"""Plain values of all kinds, as states are made of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)  # lone surrogates are text, too
tags = st.sampled_from(["\x00decimal", "\x00tuple", "\x00decimal0", ""])
numbers = (
    st.integers()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats()
    | st.decimals()
    | st.sampled_from([0, 1, True, -0.0, 0.0, 1.0, Decimal(1), Decimal("1.00"), Decimal("-0"), 1 << 31, 1 << 63])
)
atoms = st.none() | st.booleans() | numbers | text | tags | st.binary(max_size=8)


def _hashable(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3).map(tuple)


def _is_usable_key(key: Any) -> bool:
    """Equal to itself, so that it can be found again; a signalling NaN cannot even be hashed."""
    try:
        hash(key)
    except TypeError:
        return False
    return all(map(_is_usable_key, key)) if isinstance(key, tuple) else key == key


keys = st.recursive(atoms.filter(_is_usable_key), _hashable, max_leaves=4)
values = st.recursive(
    atoms,
    lambda inner: _hashable(inner) | st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    """The same value of the same type, through and through: 1 is not True, 0.0 not -0.0, and NaN is NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    return repr(a) == repr(b)
