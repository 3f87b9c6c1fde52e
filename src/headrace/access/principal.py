"""`Principal`: the user or program behind a request."""

from __future__ import annotations

from dataclasses import dataclass

ADMIN = "admin"
RESERVED = ("local", "nobody")
"""Names that no user may have."""


@dataclass(frozen=True)
class Principal:
    """A user or a program. `credential` is the kind of credential: token, password, session, or local.

    `generation` is the generation of the user's password: credentials from before a password change are rejected.
    """

    name: str
    roles: frozenset[str] = frozenset()
    credential: str = ""
    generation: int | None = None


LOCAL = Principal("local", frozenset((ADMIN,)), "local")
"""The operator on the machine itself, who can read the data folder's files anyway."""
NOBODY = Principal("nobody")
"""An unauthenticated client."""
