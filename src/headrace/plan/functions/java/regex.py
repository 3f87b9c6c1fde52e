"""Translates Java's regular expressions to Python's.

Translated is the common syntax that differs between the two: `\\p{...}` classes, `\\Q...\\E`, `\\h`, `\\R`, `\\z`,
`\\Z`, group names, and the line ends that a dot does not match. Letters, digits and spaces are ASCII, as in Java. Not
translated, and rejected: brackets inside brackets, `&&` there, flags in the middle of a pattern, and syntax that Java
does not have. A backtracking engine can take very long over a pattern such as `(a|aa)+$`: a search has a time limit
(`limits.REGEX_TIMEOUT_SECONDS`). The expanded size of a pattern is limited, too.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import regex

MAX_SIZE = 5000
"""Maximum number of pattern elements, counting repetitions: the engine expands them."""
MAX_DEPTH = 40
"""Maximum nesting of groups."""

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
_KNOWN_ESCAPES = frozenset("tnrfaxudDsSwWbBA0123456789") | _ESCAPES.keys()
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\(?P<negated>[pP])(?:\{(?P<long>\w+)\}|(?P<short>[A-Z]))"
    r"|\\x\{(?P<code>[0-9A-Fa-f]+)\}|\\k<(?P<reference>\w+)>|\(\?<(?P<group>[A-Za-z]\w*)>|\\(?P<escape>.)"
    r"|\{(?P<count>\d{1,6})(?:,(?P<most>\d{0,6}))?\}|(?P<opening>\((?:\?(?:<?[=!]|>|[imx]*(?:-[imx]+)?:))?(?![?*]))"
    r"|(?P<more>\+)|(?P<plain>.)",
    re.DOTALL,
)


@lru_cache(maxsize=100)
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Compiles the pattern; raises ValueError or `regex.error` if it is invalid."""
    return regex.compile(translate_pattern(pattern), regex.ASCII)


def translate_pattern(pattern: str) -> str:
    flags = re.match(r"\(\?[imsx]+\)", pattern)
    start = flags.end() if flags else 0
    point = "." if "s" in pattern[:start] else f"[^{_LINE_ENDS}]"
    parts: list[str] = [pattern[:start]]
    weight = _Weight()
    in_brackets = False
    for token in _TOKEN.finditer(pattern, start):
        if in_brackets and (token[0] == "[" or pattern.startswith("&&", token.start())):
            raise ValueError(f"brackets or && inside brackets are not supported: {pattern}")
        if in_brackets and token[0] == "]" and parts[-1] in ("[", "[^"):
            parts.append(r"\]")  # a literal if it comes first
            continue
        in_brackets = token[0] == "[" or (in_brackets and token[0] != "]")
        parts.append(token[0] if in_brackets and _is_sign(token) else _translated_token(token, in_brackets, point))
        weight.add(token, parts[-1], in_brackets)
    return "".join(parts)


def _is_sign(token: re.Match[str]) -> bool:
    """Whether the token is a group or a repetition; in brackets such a token is a literal."""
    return bool(token["count"] or token["more"] or token["opening"] or token["group"])


class _Weight:
    """The size of a pattern with its repetitions expanded: for each open group its total, and its last part."""

    def __init__(self) -> None:
        self._open = [(0, 0)]

    def add(self, token: re.Match[str], text: str, in_brackets: bool) -> None:
        whole, last = self._open.pop()
        if in_brackets or not (_is_sign(token) or token[0] == ")"):
            last = 1 + len(text) // 20
            self._open.append((whole + last, last))
        elif token["count"] or token["more"]:
            times = _times(token)
            self._open.append((whole + last * (times - 1), last * times))
        elif token[0] == ")":
            outer, _ = self._open.pop() if self._open else (0, 0)
            self._open.append((outer + whole, whole))
        else:
            self._open += [(whole, last), (1, 1)]
        if self._open[-1][0] > MAX_SIZE or len(self._open) > MAX_DEPTH:
            raise ValueError(f"the pattern has more than {MAX_SIZE} characters, or more than {MAX_DEPTH} nested groups")


def _times(token: re.Match[str]) -> int:
    """Returns how often the engine expands a part: without a maximum, the minimum plus one."""
    if token["more"]:
        return 2
    least = int(token["count"])
    return max(least + 1 if token["most"] == "" else least, int(token["most"] or 0), 1)


def _translated_token(token: re.Match[str], in_brackets: bool, point: str) -> str:
    if token["plain"] is not None:
        if token["plain"] in "({" and not in_brackets:
            raise ValueError(f"{token.string[token.start() :][:8]} is not valid in a Java regular expression")
        return point if token["plain"] == "." and not in_brackets else token["plain"]
    if _is_sign(token) and not token["group"]:
        return token[0]
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
    if token["escape"].isalnum() and token["escape"] not in _KNOWN_ESCAPES:
        raise ValueError(f"\\{token['escape']} is not supported")
    known = _ESCAPES.get(token["escape"])
    return token[0] if known is None else _inside(known) if in_brackets else known


def _inside(known: str) -> str:
    """Returns the members of a class, for use inside another's brackets."""
    if not known.startswith("[") or known.startswith("[^"):
        raise ValueError("\\H, \\V, \\R, \\z and \\Z are not supported inside brackets")
    return known[1:-1]


def _property(name: str, negated: bool, in_brackets: bool) -> str:
    members = _CLASSES.get(name) or _category(_SAME_CATEGORY.get(name, name))
    if in_brackets and negated:
        raise ValueError(f"\\P{{{name}}} inside brackets is not supported")
    return members if in_brackets else f"[{'^' if negated else ''}{members}]"


@cache
def _category(name: str) -> str:
    """Returns the ranges of all characters of a Unicode category."""
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


def expand_replacement(replacement: str, match: regex.Match[str]) -> str:
    """Expands `$1` and `${name}` in Java's replacement text."""

    def filled(token: re.Match[str]) -> str:
        if token["wrong"]:
            raise ValueError(f"'{token['wrong']}' in a replacement must be followed by a group or be escaped")
        if token["plain"]:
            return token["plain"]
        if token["name"]:
            return match[token["name"]] or ""
        return _numbered(token["number"], match)

    is_plain = "$" not in replacement and "\\" not in replacement
    return replacement if is_plain else _REPLACEMENT.sub(filled, replacement)


def _numbered(digits: str, match: regex.Match[str]) -> str:
    """`$12` is group 12 if it exists, else group 1 followed by a 2."""
    used = 1
    while used < len(digits) and int(digits[: used + 1]) <= match.re.groups:
        used += 1
    return (match[int(digits[:used])] or "") + digits[used:]
