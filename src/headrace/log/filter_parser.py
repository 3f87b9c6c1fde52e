"""Parser of content filters: text to a small tree. `filters` evaluates the tree.

    value.amount > 100 and headers.type = "order"
    city in ("Rome", "Oslo") or name like "A%" and not (closed is null)

The language has paths, literals, arithmetic, comparisons and logic, and nothing else: no function calls, no access to
Python names. Length and depth are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.errors import BadFilter

MAX_CHARACTERS = 4_000
MAX_DEPTH = 50


@dataclass(frozen=True)
class Literal:
    value: Any


@dataclass(frozen=True)
class Path:
    """`root`, then names and indexes inside: `value.items[0]["unit price"]`."""

    root: str
    steps: tuple[str | int, ...]
    column: int

    def __str__(self) -> str:
        return self.root + "".join(f".{s}" if isinstance(s, str) else f"[{s}]" for s in self.steps)


@dataclass(frozen=True)
class Binary:
    """Arithmetic, a comparison, `and` or `or`."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Not:
    of: Node


@dataclass(frozen=True)
class IsNull:
    of: Node


@dataclass(frozen=True)
class In:
    of: Node
    choices: tuple[Literal, ...]


@dataclass(frozen=True)
class Like:
    """SQL's LIKE pattern: `%` is any text, `_` any character, a backslash escapes them."""

    of: Node
    pattern: str


Node = Literal | Path | Binary | Not | IsNull | In | Like

COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
ARITHMETIC = ("+", "-", "*", "/", "%")
_CONSTANTS = {"true": True, "false": False, "null": None}
_WORDS = {"and", "or", "not", "in", "like", "is", *_CONSTANTS}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)
        |(?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')
        |(?P<name>[A-Za-z_]\w*|`[^`]+`)
        |(?P<sign>==|!=|<>|<=|>=|[=<>+\-*/%().,\[\]]))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int


def parse_filter(text: str) -> Node:
    """Parse a filter; raises `BadFilter` with the column and a suggestion."""
    if len(text) > MAX_CHARACTERS:
        raise BadFilter(f"the filter has {len(text)} characters", fix=f"write at most {MAX_CHARACTERS}")
    parser = _Parser(text)
    node = parser.condition()
    parser.end()
    if isinstance(node, Literal) or (isinstance(node, Binary) and node.op in ARITHMETIC):
        raise parser.error("this is a value, not a condition", 'compare it, for example "amount > 100"', 0)
    return node


class _Parser:
    """Recursive descent, loosest binding first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.next = 0
        self.depth = 0

    def _tokens(self) -> Iterator[Token]:
        at = 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                found = len(self.text) - len(self.text[at:].lstrip())
                raise self.error(f"{self.text[found]!r} is not allowed", "use paths, values and operators only", found)
            yield Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup))
            at = match.end()

    def condition(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("the filter is nested too deeply", f"use at most {MAX_DEPTH} levels")
        node = self._left_to_right(self._conjunction, {"or": "or"})
        self.depth -= 1
        return node

    def _conjunction(self) -> Node:
        return self._left_to_right(self._negation, {"and": "and"})

    def _negation(self) -> Node:
        turned = False
        while self._accept("not"):
            turned = not turned
        node = self._comparison()
        return Not(node) if turned else node

    def _comparison(self) -> Node:
        left = self._sum()
        if self._accept("is"):
            turned = self._accept("not")
            self._expect("null")
            return Not(IsNull(left)) if turned else IsNull(left)
        turned = self._accept("not")
        if self._accept("like"):
            found: Node = Like(left, self._pattern())
        elif self._accept("in"):
            found = In(left, self._choices())
        elif turned:
            raise self.error('"like" or "in" is missing after "not"', 'write "x not like ..." or "x not in (...)"')
        elif sign := self._accept_any(COMPARISONS):
            found = Binary(COMPARISONS[sign], left, self._sum())
        else:
            return left
        return Not(found) if turned else found

    def _sum(self) -> Node:
        return self._left_to_right(self._product, {"+": "+", "-": "-"})

    def _product(self) -> Node:
        return self._left_to_right(self._signed, {"*": "*", "/": "/", "%": "%"})

    def _signed(self) -> Node:
        turned = False
        while self._accept("-"):
            turned = not turned
        node = self._operand()
        if not turned:
            return node
        if isinstance(node, Literal) and isinstance(node.value, int | float):
            return Literal(-node.value)
        return Binary("-", Literal(0), node)

    def _operand(self) -> Node:
        if self._accept("("):
            node = self.condition()
            self._expect(")")
            return node
        token = self._peek()
        if token.kind in ("number", "text") or token.text.lower() in _CONSTANTS:
            return self._literal()
        if token.kind == "name" and token.text.lower() not in _WORDS:
            return self._path()
        raise self.error("a value or a path is missing", 'for example "value.amount > 100"')

    def _literal(self) -> Literal:
        turned = self._accept("-")
        token = self._take()
        if token.kind == "number":
            number = int(token.text) if token.text.isdigit() else float(token.text)
            return Literal(-number if turned else number)
        if token.kind == "text" and not turned:
            return Literal(token.text[1:-1].replace(token.text[0] * 2, token.text[0]))
        if token.kind == "name" and token.text.lower() in _CONSTANTS and not turned:
            return Literal(_CONSTANTS[token.text.lower()])
        raise self.error("a value is missing", "write a number, a quoted string, true or false", token.at)

    def _path(self) -> Path:
        root = self._take()
        steps: list[str | int] = []
        while True:
            if self._accept("."):
                token = self._take()
                if token.kind != "name":
                    raise self.error("a name is missing after the dot", 'write a["x y"] for other names', token.at)
                steps.append(token.text.strip("`"))
            elif self._accept("["):
                step = self._literal().value
                if isinstance(step, bool) or not isinstance(step, str | int) or (isinstance(step, int) and step < 0):
                    raise self.error("brackets must contain a name or an index", 'write a["b"] or a[0]')
                steps.append(step)
                self._expect("]")
            else:
                return Path(root.text.strip("`"), tuple(steps), root.at + 1)

    def _pattern(self) -> str:
        at = self._peek().at
        pattern = self._literal().value
        if not isinstance(pattern, str):
            raise self.error('"like" requires a string', 'for example "name like "A%""', at)
        return pattern

    def _choices(self) -> tuple[Literal, ...]:
        self._expect("(")
        choices = [self._literal()]
        while self._accept(","):
            choices.append(self._literal())
        self._expect(")")
        return tuple(choices)

    def _left_to_right(self, part: Callable[[], Node], signs: dict[str, str]) -> Node:
        node = part()
        count = 0
        while sign := self._accept_any(signs):
            count += 1
            if count > MAX_DEPTH:  # a chain is left-deep, so its length counts as depth
                raise self.error(
                    f"more than {MAX_DEPTH} operands in a row", "group some of them in parentheses, or use in (...)"
                )
            node = Binary(signs[sign], node, part())
        return node

    # -- tokens -----------------------------------------------------------------------------------------------------

    def _peek(self) -> Token:
        return self.tokens[self.next] if self.next < len(self.tokens) else Token("end", "", len(self.text))

    def _take(self) -> Token:
        token = self._peek()
        self.next += 1
        return token

    def _accept(self, word: str) -> bool:
        return self._accept_any((word,)) is not None

    def _accept_any(self, words: Any) -> str | None:
        token = self._peek()
        word = token.text.lower()
        if token.kind not in ("sign", "name") or word not in words:
            return None
        self.next += 1
        return word

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self.error(f'"{word}" is missing', f'write "{word}" here')

    def end(self) -> None:
        token = self._peek()
        if token.kind != "end":
            raise self.error(f'"{token.text}" is not expected here', 'join conditions with "and" or "or"')

    def error(self, what: str, fix: str, at: int | None = None) -> BadFilter:
        column = (self._peek().at if at is None else at) + 1
        return BadFilter(what, where=f"column {column} of: {self.text}", fix=fix)
