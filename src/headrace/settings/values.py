"""Values of settings and options as text: durations, sizes, truth values."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Size(int):
    """A number of bytes, written like `64 MB` or `5GiB`."""


def parse_value(kind: type, text: str) -> Any:
    """Parse a text as a value of the type; raises ValueError."""
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
            raise ValueError("write true or false")
        return text.lower() in ("true", "yes", "on", "1")
    if kind is timedelta:
        return parse_duration(text)
    if kind is Size:
        return parse_size(text)
    return kind(text)


def parse_duration(text: str) -> timedelta:
    """`250ms`, `10s`, `5m`, `2h`, `7d`, `1h30m`; a bare number is seconds."""
    compact = text.replace(" ", "").lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return timedelta(seconds=float(compact))
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|min|[smhdw]))+", compact):
        raise ValueError('write a duration like "250ms", "10s", "5m", "2h" or "7d"')
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|min|[smhdw])", compact)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def parse_size(text: str) -> Size:
    """`1024`, `64 KB`, `10MiB`, `5 GB`; units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)(i?b)?", text.strip().lower())
    if match is None:
        raise ValueError('write a size like "1024", "64 KB" or "5 GB"')
    return Size(float(match.group(1)) * _SIZES[match.group(2) or "b"])


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` parses to the same duration."""
    ms = duration // timedelta(milliseconds=1)
    for unit in ("w", "d", "h", "m", "s"):
        if ms and ms % (_UNITS[unit] * 1000) == 0:
            return f"{int(ms // (_UNITS[unit] * 1000))}{unit}"
    return f"{ms}ms"


def size_text(size: int) -> str:
    """A size for people, like `1.5 MB`."""
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TB"
