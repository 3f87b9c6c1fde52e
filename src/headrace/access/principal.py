"""`Principal`: the user or program behind a request."""

from __future__ import annotations

from dataclasses import dataclass

ADMIN = "admin"
ISSUER_SEPARATOR = "|"
"""In the name of a user of an external issuer: `issuer|subject`."""
RESERVED = ("local", "anonymous", "nobody")
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
"""The operator, who has shown the secret of the data folder."""
ANONYMOUS = Principal("anonymous", credential="local")
"""A client of this machine without credentials: a local user, or whatever forwards requests of others."""
NOBODY = Principal("nobody")
"""An unauthenticated client."""
