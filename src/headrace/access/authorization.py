"""Authorization: decides what a principal may do. Everything that is not granted is denied; there are no deny rules.

rights = Rights(principal, grants)
rights.check(Privilege.WRITE, topic_resource("orders"))
rights.rows("ORDERS", "orders")     the row filters that apply
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.access.grants import Grant, Privilege, Resource, all_resources, source_resource, topic_resource
from headrace.access.principal import ADMIN, ANONYMOUS, LOCAL, NOBODY, Principal
from headrace.errors import NotAllowed, RowsHidden, SecretRequired

_SECRET_FIX = (
    "commands of headrace send the secret of the data folder by themselves; with curl: "
    '-u "local:$(cat DATA/local.secret)"; in a browser: open the link that `headrace console` prints'
)


class Rights:
    """The rights of one principal at one moment."""

    def __init__(self, principal: Principal, grants: Iterable[Grant] = ()) -> None:
        self.principal = principal
        self.grants = tuple(grants)
        self.is_admin = ADMIN in principal.roles
        self.changes_own_only = principal.name == ANONYMOUS.name
        """Whether the principal changes and drops what it has created, and nothing else."""

    def same(self, others: Rights) -> bool:
        """Whether principal, roles and grants are the same."""
        return (self.principal.name, self.principal.roles, self.grants) == (
            others.principal.name,
            others.principal.roles,
            others.grants,
        )

    # -- resources --------------------------------------------------------------------------------------------------

    def may(self, privilege: Privilege, resource: Resource) -> bool:
        """Whether the privilege is granted without a row filter."""
        return self.is_admin or any(one.where is None and one.covers(privilege, resource) for one in self.grants)

    def check(self, privilege: Privilege, resource: Resource) -> None:
        if not self.may(privilege, resource):
            raise self.refused(privilege, resource)

    def check_change(self, privilege: Privilege, resource: Resource, owner: str | None) -> None:
        """Require a privilege that changes what exists; `owner` has created it."""
        if not self.changes_own_only:
            self.check(privilege, resource)
        elif owner != self.principal.name:
            raise self.refused(privilege, resource)

    def check_admin(self, what: str) -> None:
        if self.changes_own_only:
            raise SecretRequired(f"a client without credentials may not {what}", fix=_SECRET_FIX)
        if not self.is_admin:
            raise NotAllowed(
                f"{self.principal.name} may not {what}", fix=f"ask an admin; the role {ADMIN} has this privilege"
            )

    def refused(self, privilege: Privilege, resource: Resource) -> NotAllowed:
        if self.changes_own_only:
            return SecretRequired(f"a client without credentials may not {privilege} {resource}", fix=_SECRET_FIX)
        return NotAllowed(
            f"{self.principal.name} may not {privilege} {resource}",
            fix=f"ask an admin to grant it: headrace role grant ROLE {privilege} {resource.kind} '{resource.name}'",
        )

    # -- row filters of streams and tables --------------------------------------------------------------------------

    def rows(self, name: str, of: str) -> tuple[str, ...]:
        """Row filters of a stream or table over a topic: one of them must hold. Empty: all rows are visible."""
        filters = self._rows(name, of)
        if filters is None:
            raise self.refused(Privilege.READ, source_resource(name))
        return filters

    def sees(self, name: str, of: str) -> bool:
        """Whether at least some rows are visible, so that the source is listed."""
        return self._rows(name, of) is not None

    def sees_all(self, name: str, of: str) -> bool:
        return self._rows(name, of) == ()

    def check_all(self, name: str, of: str) -> None:
        """Require access to all rows: for queries that keep running without their creator."""
        if self.rows(name, of):
            raise RowsHidden(
                f"{self.principal.name} may read only some rows of {source_resource(name)}",
                fix="ask a user who may read all rows",
            )

    def _rows(self, name: str, of: str) -> tuple[str, ...] | None:
        if self.may(Privilege.READ, source_resource(name)) or self.may(Privilege.READ, topic_resource(of)):
            return ()
        filters = {one.where for one in self.grants if one.where and one.covers(Privilege.READ, source_resource(name))}
        return tuple(sorted(filters)) or None


ALL_RIGHTS, NO_RIGHTS = Rights(LOCAL), Rights(NOBODY)
"""The rights of the operator, and those of an unauthenticated client."""
ANONYMOUS_RIGHTS = Rights(ANONYMOUS, all_resources(Privilege.READ, Privilege.WRITE, Privilege.CREATE))
"""The rights of a client of this machine without credentials, if `auth.mode` is `local`."""
