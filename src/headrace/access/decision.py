"""The one decision: what somebody may do. What is not granted is refused; nothing is taken away but by revoking.

rights = Rights(who, grants)
rights.check(Deed.WRITE, topic("orders"))
rights.rows("ORDERS", "orders")     the conditions under which a row is seen
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.access.grants import Deed, Grant, Thing, source, topic
from headrace.access.who import ADMIN, LOCAL, NOBODY, Who
from headrace.errors import NotAllowed, RowsHidden


class Rights:
    """Those of one person at one moment."""

    def __init__(self, who: Who, grants: Iterable[Grant] = ()) -> None:
        self.who = who
        self.grants = tuple(grants)
        self.is_admin = ADMIN in who.roles

    def same(self, others: Rights) -> bool:
        """Whether they are those of the same person, with the same roles and grants."""
        return (self.who.name, self.who.roles, self.grants) == (others.who.name, others.who.roles, others.grants)

    # -- things -----------------------------------------------------------------------------------------------------

    def may(self, deed: Deed, thing: Thing) -> bool:
        """Without a condition."""
        return self.is_admin or any(one.where is None and one.covers(deed, thing) for one in self.grants)

    def check(self, deed: Deed, thing: Thing) -> None:
        if not self.may(deed, thing):
            raise self.refused(deed, thing)

    def check_admin(self, what: str) -> None:
        if not self.is_admin:
            raise NotAllowed(f"{self.who.name} may not {what}", fix=f"an admin may; the role {ADMIN} has it")

    def refused(self, deed: Deed, thing: Thing) -> NotAllowed:
        return NotAllowed(
            f"{self.who.name} may not {deed} {thing}",
            fix=f"an admin may grant it: headrace role grant ROLE {deed} {thing.kind} '{thing.name}'",
        )

    # -- rows of streams and tables ---------------------------------------------------------------------------------

    def rows(self, name: str, of: str) -> tuple[str, ...]:
        """Conditions, one of which must hold for a row of a stream or table over a topic; none: every row is seen."""
        found = self._rows(name, of)
        if found is None:
            raise self.refused(Deed.READ, source(name))
        return found

    def sees(self, name: str, of: str) -> bool:
        """Some of its rows at least, so that it is listed."""
        return self._rows(name, of) is not None

    def sees_all(self, name: str, of: str) -> bool:
        return self._rows(name, of) == ()

    def check_all(self, name: str, of: str) -> None:
        """For what goes on without whoever began it."""
        if self.rows(name, of):
            raise RowsHidden(
                f"{self.who.name} sees only some rows of {source(name)}",
                fix="ask somebody who may read all of it",
            )

    def _rows(self, name: str, of: str) -> tuple[str, ...] | None:
        if self.may(Deed.READ, source(name)) or self.may(Deed.READ, topic(of)):
            return ()
        found = {one.where for one in self.grants if one.where and one.covers(Deed.READ, source(name))}
        return tuple(sorted(found)) or None


ALL, NONE = Rights(LOCAL), Rights(NOBODY)
"""Those of the machine's owner, and of who has shown nothing."""
