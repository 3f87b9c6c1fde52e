"""Functions from text to text, and their variants for bytes. A character is a Unicode code point."""

from __future__ import annotations

import re
from typing import AnyStr

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.limits import check_length, join_bounded

AREA = "strings"

_JAVA_SPACES = "".join(map(chr, range(0x21)))
"""The characters that Java's `trim` removes: everything up to the space."""

_WORD = re.compile(r"[^ \t\n\x0b\f\r]+")
_ESCAPE = re.compile(r"\\(?:u+([0-9A-Fa-f]{4})|([0-3]?[0-7]{1,2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def char_of_code(code: int) -> str | None:
    return chr(code) if 0 <= code <= 0x10FFFF else None


def char_of_escape(text: str) -> str | None:
    if len(text) < 6 or not text.startswith("\\u"):
        return None
    halves = _ESCAPE.sub(_unescaped, text)
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    unicode, octal, other = match.groups()
    if unicode:
        return chr(int(unicode, 16))
    if octal:
        return chr(int(octal, 8))
    if other == "u":
        raise ValueError("four hexadecimal digits must follow \\u")
    return _ESCAPED.get(other, other)


def concat(*parts: str | None) -> str:
    return join_bounded("", [part for part in parts if part is not None])


def concat_bytes(*parts: bytes | None) -> bytes:
    return join_bounded(b"", [part for part in parts if part is not None])


def concat_ws(separator: AnyStr | None, *parts: AnyStr | None) -> AnyStr | None:
    return None if separator is None else join_bounded(separator, [part for part in parts if part is not None])


def elt(number: int | None, *texts: str | None) -> str | None:
    return texts[number - 1] if number is not None and 1 <= number <= len(texts) else None


def field(text: str | None, *texts: str | None) -> int:
    return texts.index(text) + 1 if text is not None and text in texts else 0


def replace(text: str, part: str, replacement: str) -> str:
    check_length(len(text) + text.count(part) * (len(replacement) - len(part)))
    return text.replace(part, replacement)


def initcap(text: str) -> str:
    return _WORD.sub(lambda word: word.group()[:1].upper() + word.group()[1:].lower(), text)


FUNCTIONS = (
    Function(
        "CHR",
        "The character of a code point, or of an escape such as \\u004b.",
        never_growing(
            Overload("(code: int) -> string", char_of_code),
            Overload("(escapes: string) -> string", char_of_escape),
        ),
        ("CHR(75)", "'K'"),
        area=AREA,
    ),
    Function(
        "CONCAT",
        "Strings or bytes joined; nulls are skipped.",
        (
            Overload("(parts: string...) -> string", concat, NullRule.PASS),
            Overload("(parts: bytes...) -> bytes", concat_bytes, NullRule.PASS),
        ),
        ("CONCAT('head', 'race')", "'headrace'"),
        area=AREA,
    ),
    Function(
        "CONCAT_WS",
        "Strings or bytes joined by a separator; nulls are skipped. Null if the separator is null.",
        (
            Overload("(separator: string, parts: string...) -> string", concat_ws, NullRule.PASS),
            Overload("(separator: bytes, parts: bytes...) -> bytes", concat_ws, NullRule.PASS),
        ),
        ("CONCAT_WS(', ', 'a', NULL, 'b')", "'a, b'"),
        area=AREA,
    ),
    Function(
        "ELT",
        "The string at a position in the list of arguments, the first being 1; null if the position does not exist.",
        never_growing(Overload("(place: int, texts: string...) -> string", elt, NullRule.PASS)),
        ("ELT(2, 'a', 'b')", "'b'"),
        area=AREA,
    ),
    Function(
        "FIELD",
        "The position of a string in the list of arguments, the first being 1; 0 if it is null or not in the list.",
        (Overload("(text: string, texts: string...) -> int", field, NullRule.PASS),),
        ("FIELD('b', 'a', 'b')", "2"),
        area=AREA,
    ),
    Function(
        "INITCAP",
        "The string with the first letter of each word in upper case and all others in lower case.",
        never_growing(Overload("(text: string) -> string", initcap)),
        ("INITCAP('the qUICK fox')", "'The Quick Fox'"),
        area=AREA,
    ),
    Function(
        "LCASE",
        "The string in lower case.",
        never_growing(Overload("(text: string) -> string", str.lower)),
        ("LCASE('Hello')", "'hello'"),
        area=AREA,
    ),
    Function(
        "UCASE",
        "The string in upper case.",
        never_growing(Overload("(text: string) -> string", str.upper)),
        ("UCASE('Hello')", "'HELLO'"),
        area=AREA,
    ),
    Function(
        "LEN",
        "The number of characters of a string, or of bytes.",
        (
            Overload("(text: string) -> int", len, spark="char_length({0})"),
            Overload("(data: bytes) -> int", len, spark="octet_length({0})"),
        ),
        ("LEN('abc')", "3"),
        area=AREA,
    ),
    Function(
        "REPLACE",
        "The string with every occurrence of a substring replaced.",
        (Overload("(text: string, part: string, replacement: string) -> string", replace),),
        ("REPLACE('anaconda', 'a', 'o')", "'onocondo'"),
        area=AREA,
    ),
    Function(
        "TRIM",
        "The string without spaces and control characters at both ends.",
        never_growing(Overload("(text: string) -> string", lambda text: text.strip(_JAVA_SPACES))),
        ("TRIM('  a b ')", "'a b'"),
        area=AREA,
    ),
)
