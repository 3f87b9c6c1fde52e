"""Java's regular expressions in Python's words.

Translated is what people use and the two languages write differently: `\\p{...}` classes, `\\Q...\\E`, `\\h`, `\\R`,
`\\z`, `\\Z`, names of groups, and the line ends that a point does not match. Letters, digits and spaces are ASCII, as
in Java. Not translated, and refused: brackets inside brackets, `&&` there, and flags in the middle of a pattern. Both
engines go back and forth: a pattern such as `(a+)+b` can take very long on either.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_CATEGORIES = {
    "L": lambda char: char.isalpha(),
    "Lu": lambda char: char.isupper(),
    "Ll": lambda char: char.islower(),
    "N": lambda char: char.isnumeric(),
    "Nd": lambda char: char.isdecimal(),
}
_SAME_CATEGORY = {
    "IsAlphabetic": "L",
    "javaLetter": "L",
    "IsLetter": "L",
    "IsL": "L",
    "IsUppercase": "Lu",
    "javaUpperCase": "Lu",
    "IsLu": "Lu",
    "IsLowercase": "Ll",
    "javaLowerCase": "Ll",
    "IsLl": "Ll",
    "IsDigit": "Nd",
    "javaDigit": "Nd",
    "IsNd": "Nd",
    "IsN": "N",
}
_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_ESCAPES = {
    "h": r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "H": r"[^ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "v": rf"[{_LINE_ENDS}\x0b\f]",
    "V": rf"[^{_LINE_ENDS}\x0b\f]",
    "R": rf"(?:\r\n|[{_LINE_ENDS}\x0b\f])",
    "z": r"\Z",
    "Z": rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)",
    "e": r"\x1b",
}
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\(?P<negated>[pP])(?:\{\^?(?P<long>\w+)\}|(?P<short>[A-Z]))"
    r"|\\x\{(?P<code>[0-9A-Fa-f]+)\}|\\k<(?P<reference>\w+)>|\(\?<(?P<group>[A-Za-z]\w*)>|\\(?P<escape>.)"
    r"|(?P<plain>.)",
    re.DOTALL,
)


@lru_cache(maxsize=500)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to use; raises ValueError or `re.error` if it is none."""
    return re.compile(translated(pattern), re.ASCII)


def translated(pattern: str) -> str:
    flags = re.match(r"\(\?([a-zA-Z]+)\)", pattern)
    point = "." if flags and "s" in flags.group(1) else f"[^{_LINE_ENDS}]"
    parts: list[str] = []
    in_brackets = False
    for token in _TOKEN.finditer(pattern):
        if in_brackets and (token[0] == "[" or pattern.startswith("&&", token.start())):
            raise ValueError(f"brackets or && inside brackets are not supported: {pattern}")
        in_brackets = token[0] == "[" or (in_brackets and token[0] != "]")
        parts.append(_translated_token(token, in_brackets, point))
    return "".join(parts)


def _translated_token(token: re.Match[str], in_brackets: bool, point: str) -> str:
    if token["plain"] is not None:
        return point if token["plain"] == "." and not in_brackets else token["plain"]
    if token["quoted"] is not None:
        return re.escape(token["quoted"])
    if token["negated"]:
        return _property(token["long"] or token["short"], token["negated"] == "P", in_brackets)
    if token["code"]:
        return re.escape(chr(int(token["code"], 16)))
    if token["reference"]:
        return f"(?P={token['reference']})"
    if token["group"]:
        return f"(?P<{token['group']}>"
    return token[0] if in_brackets else _ESCAPES.get(token["escape"], token[0])


def _property(name: str, negated: bool, in_brackets: bool) -> str:
    members = _CLASSES.get(name) or _category(_SAME_CATEGORY.get(name, name))
    if in_brackets and negated:
        raise ValueError(f"\\P{{{name}}} inside brackets is not supported")
    return members if in_brackets else f"[{'^' if negated else ''}{members}]"


@cache
def _category(name: str) -> str:
    """The ranges of all characters of a Unicode category."""
    if name not in _CATEGORIES:
        raise ValueError(f"the character class {name} is not supported")
    belongs = _CATEGORIES[name]
    ranges: list[list[int]] = []
    for code in range(0x110000):
        if not belongs(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


_REPLACEMENT = re.compile(r"\\(?P<plain>.)|\$\{(?P<name>\w+)\}|\$(?P<number>\d+)|(?P<wrong>[\\$])", re.DOTALL)


def expanded(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement text, with `$1` and `${name}` filled in."""

    def filled(token: re.Match[str]) -> str:
        if token["wrong"]:
            raise ValueError(f"'{token['wrong']}' in a replacement must be followed by a group or be escaped")
        if token["plain"]:
            return token["plain"]
        if token["name"]:
            return match[token["name"]] or ""
        return _numbered(token["number"], match)

    return _REPLACEMENT.sub(filled, replacement)


def _numbered(digits: str, match: re.Match[str]) -> str:
    """`$12` is group 12 if there is one, else group 1 and a 2."""
    used = 1
    while used < len(digits) and int(digits[: used + 1]) <= match.re.groups:
        used += 1
    return (match[int(digits[:used])] or "") + digits[used:]
