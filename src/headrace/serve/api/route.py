"""A route: one method of one path, the function that handles it, and the access that it requires.

The function takes the request context and, if it has any, parameters: a dataclass (see `parameters`). It returns a
value that becomes JSON, or a `RawResponse`. It may block on the log, since it runs on a thread. A coroutine runs on the
event loop instead, also takes the request, and returns a response.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, get_type_hints

from headrace.access.authorization import Rights
from headrace.access.grants import Privilege, Resource, ResourceType
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.http.request_body import MAX_BODY_BYTES


@dataclass(frozen=True)
class RawResponse:
    """A response that is not JSON."""

    content: bytes
    type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RequiredPrivilege:
    """A privilege on the resource that a parameter names."""

    privilege: Privilege
    kind: ResourceType
    parameter: str

    def check(self, rights: Rights, params: Any) -> None:
        rights.check(self.privilege, Resource(self.kind, getattr(params, self.parameter)))

    def __str__(self) -> str:
        return f"may {self.privilege} the {self.kind}"


class AccessLevel(StrEnum):
    """The required access level, where it does not depend on a resource."""

    ANYBODY = "anybody, known or not"
    KNOWN = "known; what one may not see is left out, or refused where it is named"
    ADMIN = "an admin"

    def check(self, rights: Rights, params: Any) -> None:
        del params
        if self is AccessLevel.ADMIN:
            rights.check_admin("do this")


Requirement = RequiredPrivilege | AccessLevel


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    do: Callable[..., Any]
    status: int = 200
    most: int = MAX_BODY_BYTES
    """Maximum bytes of a body."""
    is_code: bool = False
    """Whether it makes the server run Python code; then `server.accept_code` must be on."""
    types: tuple[str, ...] = ("application/json",)
    """Content types of the response."""
    needs: Requirement = field(kw_only=True)
    """Checked before the function is called. Every route must declare it."""
    work: WorkClass = field(kw_only=True)
    """The class of work, which has threads and a queue of its own. Every route must declare it."""

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.do)

    @property
    def parameters(self) -> type | None:
        """The dataclass of the function's parameters, if any."""
        return self.hints.get("params")

    @property
    def is_live(self) -> bool:
        return inspect.iscoroutinefunction(self.do)

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.do.__doc__ or "")
