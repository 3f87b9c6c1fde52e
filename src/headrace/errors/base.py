"""The base classes of all errors, and the registry of their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from headrace.span import Span, place, underlined

CODES: dict[str, type[HeadraceError]] = {}


class HeadraceError(Exception):
    """Base class of all headrace errors."""

    code: ClassVar[str] = ""

    def __init_subclass__(cls, code: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is not None:
            if code in CODES:
                raise TypeError(f"error code {code!r} is declared twice")
            cls.code = code
            CODES[code] = cls

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark workers, bench peers), so keyword fields must survive pickling.
        return (_rebuild, (type(self), self.what, self.where, self.fix))

    def as_dict(self) -> dict[str, str | None]:
        """The error as JSON; the only JSON form of errors."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}


def error_from_dict(document: Mapping[str, Any]) -> HeadraceError:
    """Rebuild an error from its `as_dict` form."""
    return CODES[document["code"]](document["what"], where=document["where"], fix=document["fix"])


def _rebuild(cls: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return cls(what, where=where, fix=fix)


class UserError(HeadraceError):
    """The request is invalid; repeating it unchanged fails again."""


class StatementError(UserError):
    """A statement is rejected; `span` is the position in its text, from which `located` sets `where` and `excerpt`.

    The code that finds the error knows the span; a caller that has the whole text calls `located`. `others` are further
    errors in the same statement, found by the same check.
    """

    def __init__(
        self, what: str, *, span: Span | None = None, where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.span = span
        self.excerpt: str | None = None
        self.others: tuple[StatementError, ...] = ()

    def located(self, text: str, name: str | None = None) -> Self:
        """Set `where` and the underlined line from the text that the span refers to; returns the same error."""
        if self.span is not None:
            self.where = place(self.span, name)
            self.excerpt = underlined(text, self.span)
        for other in self.others:
            other.located(text, name)
        return self

    def __str__(self) -> str:
        first, *rest = super().__str__().split("\n  fix: ", 1)
        excerpt_lines = [f"    {line}" for line in (self.excerpt or "").splitlines()]
        return "\n".join([first, *excerpt_lines, *(f"  fix: {fix}" for fix in rest)])

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"span": self.span, "excerpt": self.excerpt, "others": self.others})


class Retry(HeadraceError):
    """A transient failure outside the request; the same request may succeed later."""


class Stop(HeadraceError):
    """Continuing would damage data, or cannot succeed until a person acts."""
