"""The parts of a date-time pattern: each parses its piece of a text and formats its piece of a value, as in Java.

`parse` returns the position after what it consumed, or -1; `found` collects the values by field. Matching ignores case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

from headrace.plan.functions.java.datetime_fields import DateTimeValue
from headrace.plan.functions.java.zone_names import LONG
from headrace.plan.functions.java.zones import Zone, offset_seconds, offset_text, zone

NO_MATCH = -1
ParsedFields = dict[str, Any]


class Part(Protocol):
    def parse(self, text: str, at: int, fields: ParsedFields) -> int: ...
    def format(self, moment: DateTimeValue) -> str: ...


def set_field(fields: ParsedFields, field: str, value: Any, end: int) -> int:
    """Sets a field; setting it twice requires equal values."""
    return end if fields.setdefault(field, value) == value else NO_MATCH


@dataclass(frozen=True)
class Literal:
    text: str

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        end = at + len(self.text)
        return end if text[at:end].lower() == self.text.lower() else NO_MATCH

    def format(self, moment: DateTimeValue) -> str:
        return self.text


class Sign(Enum):
    NONE = ""
    MINUS = "-"
    BOTH = "+-"
    """A plus sign if and only if there are more digits than the pattern has letters."""


@dataclass(frozen=True)
class Number:
    """Digits. `reserve` is the number of digits that belong to the fixed-width numbers directly after it."""

    field: str
    low: int
    high: int
    sign: Sign = Sign.NONE
    reserve: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.low == self.high and self.sign is Sign.NONE

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        sign = text[at : at + 1]
        signed = sign in ("+", "-")
        if signed and sign not in self.sign.value:
            return NO_MATCH
        start = at + signed
        end = self._digits(text, start)
        if end == NO_MATCH or (self.sign is Sign.BOTH and sign != "-" and (end - start > self.low) != (sign == "+")):
            return NO_MATCH
        value = int(text[start:end])
        if sign == "-" and value == 0:
            return NO_MATCH
        return self.keep(fields, -value if sign == "-" else value, end)

    def _digits(self, text: str, start: int) -> int:
        limit = min(len(text), start + self.high + self.reserve)
        end = start
        while end < limit and "0" <= text[end] <= "9":
            end += 1
        if self.reserve:
            end = min(end, start + max(self.low, end - start - self.reserve))
        return end if end - start >= self.low else NO_MATCH

    def keep(self, fields: ParsedFields, value: int, end: int) -> int:
        return set_field(fields, self.field, value, end)

    def format(self, moment: DateTimeValue) -> str:
        value = moment.value(self.field)
        digits = str(abs(value)).rjust(self.low, "0")
        if len(digits) > self.high or (value < 0 and self.sign is Sign.NONE):
            raise ValueError(f"{self.field.replace('_', ' ')} {value} does not fit {self.high} digits")
        if value < 0:
            return "-" + digits
        return "+" + digits if self.sign is Sign.BOTH and len(digits) > self.low else digits


@dataclass(frozen=True)
class ShortYear(Number):
    """The last two digits of a year from 2000 to 2099."""

    def keep(self, fields: ParsedFields, value: int, end: int) -> int:
        return set_field(fields, self.field, 2000 + value, end)

    def format(self, moment: DateTimeValue) -> str:
        return f"{abs(moment.value(self.field)) % 100:02}"


@dataclass(frozen=True)
class Fraction(Number):
    """The first digits of the second's fraction."""

    def keep(self, fields: ParsedFields, value: int, end: int) -> int:
        return set_field(fields, self.field, value * 10 ** (9 - self.low), end)

    def format(self, moment: DateTimeValue) -> str:
        return f"{moment.value(self.field):09}"[: self.low]


@dataclass(frozen=True)
class Words:
    """A name from a list; the first stands for `first`."""

    field: str
    words: tuple[str, ...]
    first: int = 1

    @cached_property
    def _longest_first(self) -> list[tuple[str, int]]:
        numbered = [(word.lower(), number) for number, word in enumerate(self.words, self.first)]
        return sorted(numbered, key=lambda pair: -len(pair[0]))

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        for word, number in self._longest_first:
            if text[at : at + len(word)].lower() == word:
                return set_field(fields, self.field, number, at + len(word))
        return NO_MATCH

    def format(self, moment: DateTimeValue) -> str:
        return self.words[moment.value(self.field) - self.first]


@dataclass(frozen=True)
class Offset:
    """An offset from UTC in one of the `STYLES`; `zero` is the text for no offset."""

    style: str
    zero: str

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        if self.zero == "Z" and text[at : at + 1] in ("Z", "z"):
            return set_field(fields, "offset", 0, at + 1)
        match = STYLES[self.style].match(text, at)
        seconds = offset_seconds(match[1]) if match and match[1] else 0
        if match is None or seconds is None:
            return NO_MATCH
        return set_field(fields, "offset", seconds, match.end())

    def format(self, moment: DateTimeValue) -> str:
        place, ms = moment.placed()
        seconds = place.offset(ms) // 1000
        if seconds == 0:
            return self.zero
        text = offset_text(seconds, ":" if ":" in self.style or self.style == "GMT+H" else "")
        if self.style == "+HHmm":
            return text[:3] if seconds % 3600 == 0 else text[:5]
        if self.style == "GMT+H":
            return "GMT" + text[0] + text[1:].removeprefix("0").removesuffix(":00")
        if self.style == "GMT+HH:MM":
            return "GMT" + text
        return text if "ss" in self.style else text[: len(self.style)]


STYLES: dict[str, re.Pattern[str]] = {
    "+HHmm": re.compile(r"([+-]\d\d(?:\d\d)?)"),
    "+HHMM": re.compile(r"([+-]\d\d\d\d)"),
    "+HH:MM": re.compile(r"([+-]\d\d:\d\d)"),
    "+HHMMss": re.compile(r"([+-]\d\d\d\d(?:\d\d)?)"),
    "+HH:MM:ss": re.compile(r"([+-]\d\d:\d\d(?::\d\d)?)"),
    "GMT+H": re.compile(r"GMT([+-]\d{1,2}(?::\d\d(?::\d\d)?)?)?", re.IGNORECASE),
    "GMT+HH:MM": re.compile(r"GMT([+-]\d\d:\d\d(?::\d\d)?)?", re.IGNORECASE),
}
_ZONE = re.compile(r"[A-Za-z][\w~/.+:-]*|[+-]\d[\d:]*", re.ASCII)
_LONG = {long: short for short, long in LONG.items()}


class ZoneStyle(Enum):
    ID = "as Europe/London"
    SHORT = "as BST"
    LONG = "as British Summer Time"


@dataclass(frozen=True)
class ZoneName:
    """A zone's name; all forms are parsed, whichever is formatted."""

    style: ZoneStyle

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        for long, short in _LONG.items():
            if text[at : at + len(long)].lower() == long.lower():
                return set_field(fields, "zone", zone(short), at + len(long))
        match = _ZONE.match(text, at)
        # Try the longest zone first: the text after the zone may look like more of it.
        for end in range(match.end() if match else at, at, -1):
            parsed_zone = _zone_or_none(text[at:end])
            if parsed_zone is not None:
                return set_field(fields, "zone", parsed_zone, end)
        return NO_MATCH

    def format(self, moment: DateTimeValue) -> str:
        place, ms = moment.placed()
        if self.style is ZoneStyle.ID:
            return place.name
        return place.short_name(ms) if self.style is ZoneStyle.SHORT else place.long_name(ms)


def _zone_or_none(name: str) -> Zone | None:
    for candidate in dict.fromkeys((name, name.upper())):
        try:
            return zone(candidate)
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class Section:
    """An optional section in brackets: parsed if present, and formatted if the value has its fields."""

    parts: tuple[Part, ...]

    def parse(self, text: str, at: int, fields: ParsedFields) -> int:
        candidate = dict(fields)
        end = parse_all(self.parts, text, at, candidate)
        if end == NO_MATCH:
            return at
        fields.update(candidate)
        return end

    def format(self, moment: DateTimeValue) -> str:
        try:
            return "".join(part.format(moment) for part in self.parts)
        except ValueError:
            return ""


def parse_all(parts: tuple[Part, ...], text: str, at: int, fields: ParsedFields) -> int:
    for part in parts:
        at = part.parse(text, at, fields)
        if at == NO_MATCH:
            return NO_MATCH
    return at
