"""Source positions in a text, and how errors show them: `orders.ksql:3:8` and the line, underlined."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The range from `start` (inclusive) to `end` (exclusive), in characters. `line` and `column` count from 1."""

    start: int
    end: int
    line: int
    column: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of the other."""
        return Span(self.start, other.end, self.line, self.column)


NOWHERE = Span(0, 0, 1, 1)


def place(span: Span, name: str | None = None) -> str:
    """`orders.ksql:3:8`, or `line 3:8` for a text without a name."""
    return f"{name or 'line '}{':' if name else ''}{span.line}:{span.column}"


def underlined(text: str, span: Span) -> str:
    """The first line of the span, with the part that the span covers underlined."""
    line = text.splitlines()[span.line - 1] if text.splitlines() else ""
    width = max(1, min(span.end - span.start, len(line) - span.column + 1))
    margin = "".join(c if c == "\t" else " " for c in line[: span.column - 1])
    return f"{line}\n{margin}{'^' * width}"
