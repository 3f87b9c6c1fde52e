"""Masking functions: they replace upper case, lower case, digits and other characters, and preserve the length."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing

AREA = "strings"

MASKS_KEPT = 64
"""Size of the cache of masks; the least recently used one is evicted."""

_KINDS: tuple[tuple[Callable[[str], bool], int], ...] = ((str.isupper, 0), (str.islower, 1), (str.isdecimal, 2))
DEFAULTS = ("X", "x", "n", "-")


def mask(text: str | None, *masks: str | None) -> str | None:
    if text is None:
        return None
    characters = tuple(mask[:1] if mask else "" for mask in masks) if masks else DEFAULTS
    ascii_table = _ascii_table(characters)
    return text.translate(ascii_table if text.isascii() else _MaskTable(characters, ascii_table))


class _MaskTable(dict[int, int]):
    """Maps code points for `str.translate`. It is filled for one text at a time: it may become large."""

    def __init__(self, characters: tuple[str, ...], known: dict[int, int]) -> None:
        super().__init__(known)
        self._characters = characters

    def __missing__(self, code: int) -> int:
        mask = self[code] = _masked(code, self._characters)
        return mask


@lru_cache(MASKS_KEPT)
def _ascii_table(characters: tuple[str, ...]) -> dict[int, int]:
    return {code: _masked(code, characters) for code in range(128)}


def _masked(code: int, characters: tuple[str, ...]) -> int:
    mask = characters[_kind(chr(code))]
    return ord(mask) if mask else code


def _kind(char: str) -> int:
    return next((place for is_it, place in _KINDS if is_it(char)), 3)


def mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    return _parts(text, count, masks, lambda n, length: (0, n))


def mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    return _parts(text, count, masks, lambda n, length: (max(length - n, 0), length))


def mask_keep_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    return _parts(text, count, masks, lambda n, length: (n, length))


def mask_keep_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    return _parts(text, count, masks, lambda n, length: (0, max(length - n, 0)))


def _parts(
    text: str | None,
    count: int | None,
    masks: tuple[str | None, ...],
    range_of: Callable[[int, int], tuple[int, int]],
) -> str | None:
    """Masks the range of the text that `range_of(count, length)` returns."""
    if text is None or count is None:
        return None
    if count < 0:
        raise ValueError("the number of characters must not be negative")
    start, end = range_of(count, len(text))
    return f"{text[:start]}{mask(text[start:end], *masks)}{text[end:]}"


_MASKS = "upper: string, lower: string, digit: string, other: string"


def _masking(name: str, doc: str, python: Callable[..., str | None], example: tuple[str, str]) -> Function:
    overloads = never_growing(
        Overload("(text: string, count: int) -> string", python, NullRule.PASS),
        Overload(f"(text: string, count: int, {_MASKS}) -> string", python, NullRule.PASS),
    )
    return Function(name, doc, overloads, example, area=AREA)


FUNCTIONS = (
    Function(
        "MASK",
        "Replaces upper-case letters by X, lower-case letters by x, digits by n and other characters by -, "
        "or by the four given characters; a null keeps that kind of character.",
        never_growing(
            Overload("(text: string) -> string", mask, NullRule.PASS),
            Overload(f"(text: string, {_MASKS}) -> string", mask, NullRule.PASS),
        ),
        ("MASK('My Test $123')", "'Xx-Xxxx--nnn'"),
        area=AREA,
    ),
    _masking(
        "MASK_LEFT",
        "As MASK, but only the first characters, as many as given.",
        mask_left,
        ("MASK_LEFT('Ab1c', 2)", "'Xx1c'"),
    ),
    _masking(
        "MASK_RIGHT",
        "As MASK, but only the last characters, as many as given.",
        mask_right,
        ("MASK_RIGHT('Ab1c', 2)", "'Abnx'"),
    ),
    _masking(
        "MASK_KEEP_LEFT",
        "As MASK, but keeps the first characters, as many as given.",
        mask_keep_left,
        ("MASK_KEEP_LEFT('Ab1c', 2)", "'Abnx'"),
    ),
    _masking(
        "MASK_KEEP_RIGHT",
        "As MASK, but keeps the last characters, as many as given.",
        mask_keep_right,
        ("MASK_KEEP_RIGHT('Ab1c', 2)", "'Xx1c'"),
    ),
)
