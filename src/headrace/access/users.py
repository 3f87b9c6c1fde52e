"""Users, roles and grants, stored in the log as an ordered sequence of changes.

    users = UserStore(log, clock, audit)
    users.add_user("alice", "a long password", ["reader"], by="local")
    users.refresh()      applies the changes of other processes

Each record is one change, never a whole state, and changes are applied in log order: concurrent changes, from this
process or another, are not lost. A change that is invalid by then (a user who is added twice) is ignored by all
readers, and its author gets an error.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.access.audit import Audit
from headrace.access.authorization import Rights
from headrace.access.grants import ROLES, Grant
from headrace.access.passwords import hash_password
from headrace.access.principal import ADMIN, ANONYMOUS, ISSUER_SEPARATOR, RESERVED, Principal
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.errors import (
    BadAccessToken,
    BadGrant,
    BadUserName,
    HeadraceError,
    StateUnreadable,
    UnknownRole,
    UnknownUser,
    UserExists,
    suggestion,
)
from headrace.log.folded_topic import FoldedTopic
from headrace.record import Record, StoredRecord

TOPIC = "__access"
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_TOKEN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._:@/+=-]{0,254}")  # an id; external issuers choose their own form


@dataclass(frozen=True)
class User:
    """`password` is a hash, None for a user with tokens only. `generation` changes with every password change."""

    name: str
    password: str | None
    roles: frozenset[str]
    generation: int


@dataclass(frozen=True)
class AccessState:
    """The state after all changes."""

    users: Mapping[str, User] = field(default_factory=dict)
    roles: Mapping[str, tuple[Grant, ...]] = field(default_factory=lambda: dict(ROLES))
    revoked: Mapping[str, int] = field(default_factory=dict)
    """Revoked tokens, each with the time (ms) at which it expires anyway."""
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Quotas of users that differ from the settings, by the name of the setting in `[quota]`."""
    _granted: dict[frozenset[str], tuple[Grant, ...]] = field(default_factory=dict, init=False, compare=False)
    """Grants by set of roles, cached at first use."""

    @property
    def has_admin(self) -> bool:
        return any(ADMIN in user.roles for user in self.users.values())

    def rights(self, principal: Principal) -> Rights:
        if (grants := self._granted.get(principal.roles)) is None:
            all_grants = (grant for role in sorted(principal.roles) for grant in self.roles.get(role, ()))
            grants = self._granted[principal.roles] = tuple(dict.fromkeys(all_grants))
        return Rights(principal, grants)


class UserStore:
    """Thread-safe."""

    def __init__(self, log: Log, clock: Clock, audit: Audit) -> None:
        self._clock = clock
        self.audit = audit
        self._failed: dict[str, HeadraceError] = {}
        self._topic = FoldedTopic(log, TOPIC, AccessState, self._fold)
        self._topic.ensure()
        self.refresh()

    @property
    def state(self) -> AccessState:
        return self._topic.state

    def refresh(self) -> None:
        """Apply the changes that were appended since."""
        self._topic.refresh()

    def _fold(self, state: AccessState, record: StoredRecord) -> AccessState:
        change = json.loads(record.value or b"{}")
        if change.get("version") != _VERSION or change.get("did") not in _CHANGES:
            raise StateUnreadable(
                "another version of headrace wrote an entry of the user database",
                where=f"topic {TOPIC}, offset {record.offset}",
                fix="run the version that wrote it, or a later one",
            )
        try:
            return _CHANGES[change["did"]](state, record.offset, change)
        except HeadraceError as error:
            self._failed[change["id"]] = error
            return state

    # -- changes ----------------------------------------------------------------------------------------------------

    def add_user(self, name: str, password: str | None, roles: Iterable[str], *, by: str) -> None:
        hashed = None if password is None else hash_password(password)
        self._change("user-added", by, user=_checked(name), password=hashed, roles=sorted(set(roles)))

    def remove_user(self, name: str, *, by: str) -> None:
        """All credentials of the user become invalid."""
        self._change("user-removed", by, user=name)

    def set_password(self, name: str, password: str, *, by: str) -> None:
        """Earlier tokens and sessions become invalid."""
        self._change("password-set", by, user=name, password=hash_password(password))

    def sign_out(self, name: str, *, by: str) -> None:
        """Revoke all tokens and sessions of a user."""
        self._change("signed-out", by, user=name)

    def set_roles(self, name: str, roles: Iterable[str], *, by: str) -> None:
        self._change("roles-set", by, user=name, roles=sorted(set(roles)))

    def set_quota(self, name: str, quota: Mapping[str, int], *, by: str) -> None:
        """Replace the quotas of a user that differ from the settings; none of them: the settings apply."""
        self._change("quota-set", by, user=name, quota=dict(quota))

    def grant(self, role: str, grant: Grant, *, by: str) -> None:
        """Grant to a role; the first grant creates the role."""
        self._change("granted", by, role=_checked(role), grant=grant)

    def revoke(self, role: str, grant: Grant, *, by: str) -> None:
        self._change("revoked", by, role=role, grant=grant)

    def revoke_token(self, token: str, until: int, *, by: str) -> None:
        """`until` (ms) is when the token expires anyway."""
        if not _TOKEN.fullmatch(token):
            raise BadAccessToken(
                f'"{token[:80]}" is not a valid token id', fix="use the id that was shown when the token was created"
            )
        self._change("token-revoked", by, token=token, until=until)

    def _change(self, action: str, by: str, grant: Grant | None = None, **facts: Any) -> None:
        """The change is durable and applied on return. The audit entry is written first, so no change lacks one."""
        mark = uuid.uuid4().hex
        change = {"version": _VERSION, "id": mark, "did": action, "by": by, "at": self._clock.now(), **facts}
        if grant is not None:
            change["grant"] = _stored(grant)
            facts["grant"] = asdict(grant)
        _CHANGES[action](self.state, 0, change)  # an invalid change is not written
        self.audit.note(action, by, **{name: fact for name, fact in facts.items() if name != "password"})
        self._topic.append([Record(json.dumps(change).encode())])
        self.refresh()
        if (error := self._failed.pop(mark, None)) is not None:
            raise error


# -- effect of each change ------------------------------------------------------------------------------------------

AccessChange = Mapping[str, Any]


def _user_added(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    name = change["user"]
    if name in state.users:
        raise UserExists(f'user "{name}" already exists', fix="choose another name, or change the existing user")
    _check_roles(state, change["roles"])
    return _with(state, User(name, change["password"], frozenset(change["roles"]), offset))


def _user_removed(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    user = _user(state, change)
    users = {name: one for name, one in state.users.items() if name != user.name}
    return replace(state, users=users, quotas=_without(state.quotas, user.name))


def _password_set(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    return _with(state, replace(_user(state, change), password=change["password"], generation=offset))


def _signed_out(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    return _with(state, replace(_user(state, change), generation=offset))


def _roles_set(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    _check_roles(state, change["roles"])
    return _with(state, replace(_user(state, change), roles=frozenset(change["roles"])))


def _quota_set(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    name, quota = change["user"], change["quota"]
    if not (name == ANONYMOUS.name or ISSUER_SEPARATOR in name):  # these are not stored here
        _user(state, change)
    others = _without(state.quotas, name)
    return replace(state, quotas={**others, name: quota} if quota else others)


def _without(quotas: Mapping[str, Mapping[str, int]], user: str) -> Mapping[str, Mapping[str, int]]:
    return {name: quota for name, quota in quotas.items() if name != user}


def _stored(grant: Grant) -> dict[str, Any]:
    """A grant as it is stored. Earlier versions called the privilege a deed; the topic keeps that name."""
    return {"deed": grant.privilege, "kind": grant.kind, "pattern": grant.pattern, "where": grant.where}


def _grant(change: AccessChange) -> Grant:
    stored = change["grant"]
    return Grant.of(stored["deed"], stored["kind"], stored["pattern"], stored["where"])


def _granted(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    role, grant = _role(change), _grant(change)
    return replace(state, roles={**state.roles, role: (*_others(state, role, grant), grant)})


def _revoked(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    role, grant = _role(change), _grant(change)
    _check_roles(state, [role])
    if grant not in state.roles[role]:
        raise UnknownRole(f'role "{role}" has no grant "{grant}"', fix="`headrace role list` shows its grants")
    return replace(state, roles={**state.roles, role: _others(state, role, grant)})


def _token_revoked(state: AccessState, offset: int, change: AccessChange) -> AccessState:
    del offset
    left = {token: until for token, until in state.revoked.items() if until > change["at"]}
    return replace(state, revoked={**left, change["token"]: change["until"]})


_CHANGES: Mapping[str, Callable[[AccessState, int, AccessChange], AccessState]] = {
    "user-added": _user_added,
    "user-removed": _user_removed,
    "password-set": _password_set,
    "signed-out": _signed_out,
    "roles-set": _roles_set,
    "quota-set": _quota_set,
    "granted": _granted,
    "revoked": _revoked,
    "token-revoked": _token_revoked,
}


def _with(state: AccessState, user: User) -> AccessState:
    return replace(state, users={**state.users, user.name: user})


def _user(state: AccessState, change: AccessChange) -> User:
    if (user := state.users.get(change["user"])) is None:
        raise unknown_user(change["user"], state)
    return user


def unknown_user(name: str, state: AccessState) -> UnknownUser:
    fix = suggestion(name, state.users, "`headrace user list` shows all users")
    return UnknownUser(f'user "{name}" does not exist', fix=fix)


def _role(change: AccessChange) -> str:
    if change["role"] in ROLES:
        raise BadGrant(f'role "{change["role"]}" is built in and cannot be changed', fix="create a role of your own")
    return change["role"]


def _others(state: AccessState, role: str, grant: Grant) -> tuple[Grant, ...]:
    return tuple(one for one in state.roles.get(role, ()) if one != grant)


def _check_roles(state: AccessState, roles: Iterable[str]) -> None:
    for role in roles:
        if role not in state.roles:
            fix = suggestion(role, state.roles, f"roles are: {', '.join(sorted(state.roles))}")
            raise UnknownRole(f'role "{role}" does not exist', fix=fix)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise BadUserName(
            f'"{name[:80]}" is not a valid name', fix="use 1 to 63 letters, digits, dots, dashes, underscores and @"
        )
    return name
