"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass

ADMIN = "admin"
RESERVED = ("local", "nobody")
"""Names that no user may have."""


@dataclass(frozen=True)
class Who:
    """A person or a program; `how` says what it showed: a token, a password, a session, or that it is on this machine.

    `generation` is that of the user's password: what was shown before it changed counts no longer.
    """

    name: str
    roles: frozenset[str] = frozenset()
    how: str = ""
    generation: int | None = None


LOCAL = Who("local", frozenset((ADMIN,)), "local")
"""Who works on the machine itself, and could read its files as well."""
NOBODY = Who("nobody")
"""Who has shown nothing."""
