"""Joins JSON payloads to lines for Arrow's reader, and detects what it would read differently from headrace's parser.

Found by comparing both: Arrow's reader accepts several documents in a payload, a null between them (on which alone it
even crashes), anything after a zero byte, a byte order mark, invalid UTF-8, `NaN` and `Infinity`, numbers beyond any
double, and any depth. All but the first matter only in what it skips: what it reads is checked as a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.json.document import DEPTH

BARE = "value"
"""The name that unwrapped values get."""

PLAIN_NAME = re.compile(r"[ !#-.0-\[\]-~]+")
"""Names with only one spelling in JSON, except for case and \\u escapes."""

_BLANKS = " \t\r\n"
_ANOTHER = r"\}[ \t\r\n]*[n{\x00]"
_AFTER_END = np.isin(np.arange(256), list(b" \t\r\nn{\0"))
"""Bytes after a closing brace that may precede another document, or begin one that Arrow accepts there."""

_NO_JSON = r"[:,\[ \t\r\n-](?:NaN|Inf|[0-9.]{200}|[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3})"
"""Words that Arrow reads as numbers, and numbers that may be too large for a double."""

_DISGUISED = r'(?:\\u|[\x{DF}\x{131}\x{17F}\x{FB00}-\x{FB06}])[^"]*"[ \t\r\n]*:'
"""Names with an escape, or with a non-ASCII letter whose upper case is ASCII."""

_ODD_DECIMAL = r'"[+-]?(?:\.[0-9]+|[0-9]+\.)(?:[eE][+-]?[0-9]+)?"'
"""Texts that Arrow accepts as a decimal and headrace's reader does not."""


@dataclass(frozen=True)
class Lines:
    """Payloads as texts, and all of them joined, one document per line."""

    texts: pa.StringArray
    joined: bytes

    @property
    def hide_no_json(self) -> bool:
        """Whether what Arrow skips may be invalid JSON."""
        return self._may_be_deep or self._has(_NO_JSON)

    @property
    def names_are_plain(self) -> bool:
        """Whether no name that Arrow skips can be another spelling of a column's name."""
        return (b"\\u" not in self.joined and self.joined.isascii()) or not self._has(_DISGUISED)

    def respell(self, names: Mapping[str, bool]) -> bool:
        """Whether one of these names may occur in another spelling; the value says whether lines may lack the name."""
        lower = self.joined.lower()
        for name, lacking in names.items():
            quoted = f'"{name}"'.encode()
            occurrences = lower.count(quoted.lower())
            if (lacking or occurrences != len(self.texts)) and occurrences != self.joined.count(quoted):
                return True
        return False

    @property
    def have_inexact_decimals(self) -> bool:
        return b"\\u" in self.joined or self._has(_ODD_DECIMAL)

    def _has(self, pattern: str) -> bool:
        return bool(pc.any(pc.match_substring_regex(self.texts, pattern)).as_py())

    @cached_property
    def _may_be_deep(self) -> bool:
        if pc.max(pc.binary_length(self.texts)).as_py() <= 2 * DEPTH:
            return False
        openings = pc.add(pc.count_substring(self.texts, "{"), pc.count_substring(self.texts, "["))
        return pc.max(openings).as_py() > DEPTH


def lines_of(payloads: pa.BinaryArray, *, bare: bool) -> Lines | None:
    """The payloads, if each can only be one document or make Arrow fail; `bare` ones are wrapped in documents here.

    Documents are separated by `}`, a newline and `{`. That cannot occur inside a document: no JSON text may contain a
    newline, and no object directly follows another one. So each payload begins and ends where a document does; that it
    contains neither two of them nor a null between them is checked by what follows its braces.
    """
    texts = _objects(payloads, bare=bare)
    if texts is None:
        return None
    start, end = (f'{{"{BARE}":', "}") if bare else ("", "")
    all_texts = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    body = pc.binary_join(all_texts, f"{end}\n{start}")[0].as_buffer().to_pybytes()
    joined = start.encode() + body + end.encode()
    lines = Lines(texts, joined)
    if _ends(joined) != len(payloads) and (bare or pc.any(pc.match_substring_regex(texts, _ANOTHER)).as_py()):
        return None
    return lines


def _objects(payloads: pa.BinaryArray, *, bare: bool) -> pa.StringArray | None:
    try:
        texts = payloads.cast(pa.string())
    except pa.ArrowInvalid:  # invalid UTF-8
        return None
    if bare or _are_objects(texts):
        return texts
    trimmed = pc.ascii_trim(texts, characters=_BLANKS)
    return trimmed if _are_objects(trimmed) else None


def _are_objects(texts: pa.StringArray) -> bool:
    """Whether each begins and ends with a brace."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if (bounds[1:] - bounds[:-1]).min(initial=2) < 2:
        return False
    letters = np.frombuffer(data, np.uint8)
    return bool((letters[bounds[:-1]] == ord("{")).all() and (letters[bounds[1:] - 1] == ord("}")).all())


def _ends(joined: bytes) -> int:
    """The number of braces after which a document may end."""
    letters = np.frombuffer(joined, np.uint8)
    followers = letters[np.flatnonzero(letters[:-1] == ord("}")) + 1]
    return 1 + int(np.count_nonzero(_AFTER_END[followers]))
