"""A row of a noun's table: one method of one path, the function that answers it, and what one must be allowed to.

The function takes the site and, if it has any, parameters: a dataclass (see `parameters`). What it gives is JSON, or a
`Plain` answer in another form. It may wait for the log: it runs on a thread of its own. A coroutine runs on the loop
instead, gets the request itself, and gives a response.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, get_type_hints

from headrace.access.decision import Rights
from headrace.access.grants import Deed, Kind, Thing
from headrace.serve.bodies import MOST


@dataclass(frozen=True)
class Plain:
    """An answer that is no JSON."""

    content: bytes
    type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class May:
    """A deed on the thing that a parameter names."""

    deed: Deed
    kind: Kind
    parameter: str

    def check(self, rights: Rights, asked: Any) -> None:
        rights.check(self.deed, Thing(self.kind, getattr(asked, self.parameter)))

    def __str__(self) -> str:
        return f"may {self.deed} the {self.kind}"


class Be(StrEnum):
    """Who one must be, where that is not a matter of one thing."""

    ANYBODY = "anybody, known or not"
    KNOWN = "known; what one may not see is left out, or refused where it is named"
    ADMIN = "an admin"

    def check(self, rights: Rights, asked: Any) -> None:
        del asked
        if self is Be.ADMIN:
            rights.check_admin("do this")


Needs = May | Be


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    do: Callable[..., Any]
    status: int = 200
    most: int = MOST
    """Bytes of a body."""
    is_code: bool = False
    """Whether it lets the server execute Python: then not everybody may ask for it."""
    types: tuple[str, ...] = ("application/json",)
    """Of the answer."""
    needs: Needs = field(kw_only=True)
    """Checked before the function is called; there is no route that does not say it."""

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.do)

    @property
    def parameters(self) -> type | None:
        """The dataclass that the function takes, if any."""
        return self.hints.get("asked")

    @property
    def is_live(self) -> bool:
        return inspect.iscoroutinefunction(self.do)

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.do.__doc__ or "")
