"""Logging in and out; users, roles and their grants; tokens; and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headrace.access.audit import entries, verified
from headrace.access.book import User
from headrace.access.decision import Rights
from headrace.access.grants import Grant
from headrace.access.tokens import longest_end
from headrace.access.who import Who
from headrace.errors import BadAccessToken, NotAuthenticated, UnknownUser
from headrace.serve.api.parameters import in_body, in_path, in_query
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site
from headrace.serve.authentication import COOKIE
from headrace.settings import parse_duration

_MOST_ENTRIES = 1_000


# -- logging in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A token: send it as `Authorization: Bearer`. `expires_at` is when it ends, in seconds since 1970."""

    token: str
    id: str
    expires_at: float


@dataclass(frozen=True, kw_only=True)
class LogIn:
    user: str = in_body("The user's name.")
    password: str = in_body("The user's password.")


async def log_in(site: Site, asked: LogIn, request: Request) -> Response:
    """A token for a name and a password. It lives as long as the setting `token_life` says."""
    who = await _known(site, asked, request)
    made = await run_in_threadpool(_token, site.by(Rights(who)), who.name, None)
    return _json(made, 201)


async def begin_session(site: Site, asked: LogIn, request: Request) -> Response:
    """Log in by browser: sets a cookie, and tells the session's second token.

    Whatever changes something must send that as `x-csrf-token`.
    """
    who = await _known(site, asked, request)
    guard = site.node.guard
    cookie, session = guard.sessions.begin(who, guard.settings.session_life.total_seconds())
    answer = _json({"name": who.name, "roles": sorted(who.roles), "csrf": session.csrf}, 201)
    life = int(guard.settings.session_life.total_seconds())
    _set_cookie(answer, request, cookie, life)
    return answer


async def end_session(site: Site, request: Request) -> Response:
    """Log out: the cookie counts no longer."""
    if (cookie := request.cookies.get(COOKIE)) is not None:
        site.node.guard.sessions.end(cookie)
    answer = Response(status_code=204)
    _set_cookie(answer, request, "", 0)
    return answer


async def get_session(site: Site, request: Request) -> Response:
    """Who one is, and may do; by browser also the session's second token."""
    who = site.rights.who
    told: dict[str, Any] = {"name": who.name, "roles": sorted(who.roles), "how": who.how}
    told["grants"] = [str(grant) for grant in site.rights.grants]
    cookie = request.cookies.get(COOKIE)
    session = None if cookie is None else site.node.guard.sessions.find(cookie)
    return _json({**told, "csrf": None if session is None else session.csrf})


async def _known(site: Site, asked: LogIn, request: Request) -> Who:
    address = request.client.host if request.client else ""
    guard = site.node.guard
    who = await run_in_threadpool(guard.by_password, asked.user, asked.password, address)
    await run_in_threadpool(lambda: guard.audit.note("log-in", who.name, address=address))
    return who


def _json(told: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(told), status, {"cache-control": "no-store"}, "application/json")


def _set_cookie(answer: Response, request: Request, value: str, life: int) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, value, max_age=life, path="/", secure=secure, httponly=True, samesite="strict")


# -- tokens ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NewToken:
    user: str = in_path("The user's name.")
    life: str | None = in_body(
        "How long it lives, like 30d; by default as long as the setting `token_life` says.", None
    )


@dataclass(frozen=True, kw_only=True)
class OldToken:
    id: str = in_path("The token's id.")


def make_token(site: Site, asked: NewToken) -> Made:
    """A token for a user: for a program, say."""
    _user(site, asked.user)
    return _token(site, asked.user, asked.life)


def revoke_token(site: Site, asked: OldToken) -> None:
    """A token counts no longer."""
    site.node.guard.book.revoke_token(asked.id, longest_end(), by=site.rights.who.name)


def _token(site: Site, user: str, life: str | None) -> Made:
    try:
        lives = None if life is None else parse_duration(life)
    except ValueError as error:
        raise BadAccessToken(f'a life cannot be "{life}": {error}', fix="for example 12h or 30d") from None
    made = Made(*site.node.guard.make_token(user, lives))
    site.note("token-made", user=user, token=made.id)
    return made


# -- users ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    name: str
    roles: list[str]
    has_password: bool


@dataclass(frozen=True, kw_only=True)
class Named:
    user: str = in_path("The user's name.")


@dataclass(frozen=True, kw_only=True)
class NewUser:
    name: str = in_body("The user's name.")
    password: str | None = in_body("The password; without one only tokens count.", None)
    roles: list[str] = in_body("Names of roles.", ())


@dataclass(frozen=True, kw_only=True)
class Change(Named):
    password: str | None = in_body("Another password: tokens and sessions of before count no longer.", None)
    roles: list[str] | None = in_body("Other roles, in place of all.", None)


@dataclass(frozen=True, kw_only=True)
class OwnPassword:
    old: str = in_body("The password of now.")
    new: str = in_body("The new one.")


def list_users(site: Site) -> list[Told]:
    """All users."""
    return [_told(user) for _, user in sorted(site.node.guard.book.state.users.items())]


def add_user(site: Site, asked: NewUser) -> Told:
    """Add a user."""
    site.node.guard.book.add_user(asked.name, asked.password, asked.roles, by=site.rights.who.name)
    return _user(site, asked.name)


def change_user(site: Site, asked: Change) -> Told:
    """Change a user's password or roles."""
    book, by = site.node.guard.book, site.rights.who.name
    if asked.roles is not None:
        book.set_roles(asked.user, asked.roles, by=by)
    if asked.password is not None:
        book.set_password(asked.user, asked.password, by=by)
    return _user(site, asked.user)


def remove_user(site: Site, asked: Named) -> None:
    """Remove a user: whatever they show counts no longer."""
    site.node.guard.book.remove_user(asked.user, by=site.rights.who.name)


def sign_out(site: Site, asked: Named) -> None:
    """End all tokens and sessions of a user."""
    site.node.guard.book.sign_out(asked.user, by=site.rights.who.name)


async def change_password(site: Site, asked: OwnPassword, request: Request) -> Response:
    """Change one's own password. Tokens and sessions of before count no longer."""
    who = site.rights.who
    if who.generation is None:
        raise NotAuthenticated(f"{who.name} has no password here", fix="log in as a user")
    address = request.client.host if request.client else ""
    await run_in_threadpool(site.node.guard.by_password, who.name, asked.old, address)
    change = partial(site.node.guard.book.set_password, who.name, asked.new, by=who.name)
    await run_in_threadpool(change)
    return Response(status_code=204)


def _user(site: Site, name: str) -> Told:
    user = site.node.guard.book.state.users.get(name)
    if user is None:
        raise UnknownUser(f'there is no user "{name}"', fix="GET /api/v1/users lists them")
    return _told(user)


def _told(user: User) -> Told:
    return Told(user.name, sorted(user.roles), user.password is not None)


# -- roles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Role:
    name: str
    grants: list[Grant]


@dataclass(frozen=True, kw_only=True)
class Granted:
    role: str = in_path("The role's name; a new one is made by its first grant.")
    deed: str = in_body("read, write, create, drop or control.")
    kind: str = in_body("topic, source (a stream or table), type or group.")
    pattern: str = in_body("A name, how names begin and *, or * for all.")
    where: str | None = in_body("Only rows for which this condition of KSQL holds; for: read source.", None)


def list_roles(site: Site) -> list[Role]:
    """All roles with their grants."""
    return [Role(name, list(grants)) for name, grants in sorted(site.node.guard.book.state.roles.items())]


def grant(site: Site, asked: Granted) -> None:
    """Grant something to a role."""
    given = Grant.of(asked.deed, asked.kind, asked.pattern, asked.where)
    site.node.guard.book.grant(asked.role, given, by=site.rights.who.name)


def revoke(site: Site, asked: Granted) -> None:
    """Take a grant back."""
    given = Grant.of(asked.deed, asked.kind, asked.pattern, asked.where)
    site.node.guard.book.revoke(asked.role, given, by=site.rights.who.name)


# -- what was done --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """`at` is when, in ms; `hash` is that of the whole entry, which the next one holds."""

    number: int
    at: int
    did: str
    who: str
    facts: dict[str, Any]
    hash: str


@dataclass(frozen=True)
class Chain:
    count: int
    head: str


@dataclass(frozen=True, kw_only=True)
class Page:
    start: int = in_query("The first number.", 0, name="from")
    limit: int = in_query("At most so many entries.", 100, most=_MOST_ENTRIES)


@dataclass(frozen=True, kw_only=True)
class Noted:
    known: str | None = in_query("The hash of an entry that must be there.", None)


def list_entries(site: Site, asked: Page) -> list[Entry]:
    """What was done, by whom."""
    found = (one for one in entries(site.log) if asked.start <= one.number < asked.start + asked.limit)
    return [Entry(e.number, e.at, e.did, e.who, dict(e.facts), e.hash) for e in found]


def verify_entries(site: Site, asked: Noted) -> Chain:
    """Whether no entry was changed, removed or put in."""
    found = verified(site.log, asked.known)
    return Chain(found.count, found.head)


ROUTES = (
    Route("POST", "/tokens", log_in, 201, needs=Be.ANYBODY),
    Route("POST", "/session", begin_session, 201, needs=Be.ANYBODY),
    Route("GET", "/session", get_session, needs=Be.KNOWN),
    Route("DELETE", "/session", end_session, 204, needs=Be.KNOWN),
    Route("PUT", "/password", change_password, 204, needs=Be.KNOWN),
    Route("DELETE", "/tokens/{id}", revoke_token, 204, needs=Be.ADMIN),
    Route("GET", "/users", list_users, needs=Be.ADMIN),
    Route("POST", "/users", add_user, 201, needs=Be.ADMIN),
    Route("PATCH", "/users/{user}", change_user, needs=Be.ADMIN),
    Route("DELETE", "/users/{user}", remove_user, 204, needs=Be.ADMIN),
    Route("POST", "/users/{user}/tokens", make_token, 201, needs=Be.ADMIN),
    Route("DELETE", "/users/{user}/tokens", sign_out, 204, needs=Be.ADMIN),
    Route("GET", "/roles", list_roles, needs=Be.ADMIN),
    Route("POST", "/roles/{role}/grants", grant, 204, needs=Be.ADMIN),
    Route("DELETE", "/roles/{role}/grants", revoke, 204, needs=Be.ADMIN),
    Route("GET", "/audit", list_entries, needs=Be.ADMIN),
    Route("GET", "/audit/verification", verify_entries, needs=Be.ADMIN),
)
