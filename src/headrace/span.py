"""A place in a text somebody wrote, and how it is shown: `orders.ksql:3:8` and the line, underlined."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to before `end`, in characters of the text. `line` and `column` count from 1."""

    start: int
    end: int
    line: int
    column: int

    def to(self, other: Span) -> Span:
        """From the beginning of this to the end of the other."""
        return Span(self.start, other.end, self.line, self.column)


NOWHERE = Span(0, 0, 1, 1)


def place(span: Span, name: str | None = None) -> str:
    """`orders.ksql:3:8`, or `line 3:8` of a text without a name."""
    return f"{name or 'line '}{':' if name else ''}{span.line}:{span.column}"


def underlined(text: str, span: Span) -> str:
    """The line of the span's beginning, and under it what the span covers of that line."""
    line = text.splitlines()[span.line - 1] if text.splitlines() else ""
    width = max(1, min(span.end - span.start, len(line) - span.column + 1))
    margin = "".join(c if c == "\t" else " " for c in line[: span.column - 1])
    return f"{line}\n{margin}{'^' * width}"
