"""The base class of all nodes of the syntax tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.span import NOWHERE, Span


@dataclass(frozen=True, kw_only=True)
class Ast:
    """Base class of all nodes; the span is ignored in comparisons."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def span_of(self, name: str | None) -> Span:
        """Returns the position of a name in the node; statements know it, other nodes return their own."""
        return self.span
