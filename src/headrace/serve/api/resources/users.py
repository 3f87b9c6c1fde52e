"""Log-in and log-out, users, roles and grants, tokens, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.access.audit import newest_entries, verify_audit
from headrace.access.authorization import Rights
from headrace.access.client_key import client_key
from headrace.access.grants import Grant
from headrace.access.login_links import LINK_SECONDS
from headrace.access.principal import Principal
from headrace.access.tokens import latest_expiry
from headrace.access.users import User, unknown_user
from headrace.errors import BadAccessToken, NotAllowed, NotAuthenticated
from headrace.serve import browser_sessions
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body, in_path, in_query
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route
from headrace.serve.caller import client_address
from headrace.settings import parse_duration

_MOST_ENTRIES = 1_000
_MAX_LOGIN_BYTES = 8 << 10  # of a body that clients send before they are known, or with passwords


# -- logging in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenResponse:
    """A token: send it as `Authorization: Bearer`. `expires_at` is in seconds since 1970."""

    token: str
    id: str
    expires_at: float


@dataclass(frozen=True, kw_only=True)
class LoginRequest:
    user: str = in_body("The user's name.")
    password: str = in_body("The user's password.")


async def log_in(context: RequestContext, params: LoginRequest, request: Request) -> Response:
    """Get a token for a name and a password. It expires after the setting `auth.token_ttl`."""
    principal = await _known(context, params, request)
    token = await context.run(_token, context.with_rights(Rights(principal)), principal.name, None)
    return _json(token, 201)


async def begin_session(context: RequestContext, params: LoginRequest, request: Request) -> Response:
    """Log in with a browser: sets a cookie, and returns the session's CSRF token.

    Send it as `x-csrf-token` with every request that changes something.
    """
    principal = await _known(context, params, request)
    guard = context.node.guard
    cookie, session = browser_sessions.start_session(guard, principal)
    answer = _json({"name": principal.name, "roles": sorted(principal.roles), "csrf": session.csrf}, 201)
    browser_sessions.set_cookie(answer, request, guard, cookie)
    return answer


async def end_session(context: RequestContext, request: Request) -> Response:
    """Log out: invalidates the cookie."""
    answer = Response(status_code=204)
    browser_sessions.end_session(answer, request, context.node.guard)
    return answer


async def get_session(context: RequestContext, request: Request) -> Response:
    """Get the current user and their permissions."""
    principal = context.rights.principal
    document: dict[str, Any] = {
        "name": principal.name,
        "roles": sorted(principal.roles),
        "credential": principal.credential,
    }
    document["grants"] = [str(grant) for grant in context.rights.grants]
    return _json(document)


@dataclass(frozen=True)
class LoginLink:
    """A path of the console that logs a browser in, once, within `seconds`."""

    path: str
    seconds: float


def create_login_link(context: RequestContext) -> LoginLink:
    """Create a link that logs a browser in as the user who asks for it."""
    principal = context.rights.principal
    if context.node.guard.rights_of(principal.name) is None:
        raise NotAllowed("users of an external issuer have no sessions", fix="log in as a user of this server")
    context.audit("log-in-link-made")
    return LoginLink(browser_sessions.login_link(context.node.guard.links.create(principal)), LINK_SECONDS)


async def _known(context: RequestContext, params: LoginRequest, request: Request) -> Principal:
    address = client_address(request.scope)
    guard = context.node.guard

    def log_in() -> Principal:
        principal = guard.by_password(params.user, params.password, address)
        guard.audit.note("log-in", principal.name, address=address)
        return principal

    return await context.admission.run(WorkClass.AUTHENTICATION, client_key(address), log_in)


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, {"cache-control": "no-store"}, "application/json")


# -- tokens ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CreateTokenRequest:
    user: str = in_path("The user's name.")
    life: str | None = in_body("Lifetime, for example 30d; the default is the setting `auth.token_ttl`.", None)


@dataclass(frozen=True, kw_only=True)
class RevokeTokenRequest:
    id: str = in_path("The token's id.")


def create_token(context: RequestContext, params: CreateTokenRequest) -> TokenResponse:
    """Create a token for a user, for example for a program."""
    _user(context, params.user)
    return _token(context, params.user, params.life)


def revoke_token(context: RequestContext, params: RevokeTokenRequest) -> None:
    """Revoke a token."""
    context.node.guard.users.revoke_token(params.id, latest_expiry(), by=context.rights.principal.name)


def _token(context: RequestContext, user: str, life: str | None) -> TokenResponse:
    try:
        lives = None if life is None else parse_duration(life)
    except ValueError as error:
        raise BadAccessToken(f'"{life}" is not a valid lifetime: {error}', fix="for example 12h or 30d") from None
    token = TokenResponse(*context.node.guard.make_token(user, lives))
    context.audit("token-made", user=user, token=token.id)
    return token


# -- users ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserDescription:
    name: str
    roles: list[str]
    has_password: bool


@dataclass(frozen=True, kw_only=True)
class UserRequest:
    user: str = in_path("The user's name.")


@dataclass(frozen=True, kw_only=True)
class AddUserRequest:
    name: str = in_body("The user's name.")
    password: str | None = in_body("The password; without one only tokens count.", None)
    roles: list[str] = in_body("Names of roles.", ())


@dataclass(frozen=True, kw_only=True)
class ChangeUserRequest(UserRequest):
    password: str | None = in_body("A new password; it revokes earlier tokens and sessions.", None)
    roles: list[str] | None = in_body("Other roles, in place of all.", None)


@dataclass(frozen=True, kw_only=True)
class ChangePasswordRequest:
    old: str = in_body("The current password.")
    new: str = in_body("The new password.")


def list_users(context: RequestContext) -> list[UserDescription]:
    """List all users."""
    return [_describe(user) for _, user in sorted(context.node.guard.users.state.users.items())]


def add_user(context: RequestContext, params: AddUserRequest) -> UserDescription:
    """Add a user."""
    context.node.guard.users.add_user(params.name, params.password, params.roles, by=context.rights.principal.name)
    return _user(context, params.name)


def change_user(context: RequestContext, params: ChangeUserRequest) -> UserDescription:
    """Change a user's password or roles."""
    users, by = context.node.guard.users, context.rights.principal.name
    if params.roles is not None:
        users.set_roles(params.user, params.roles, by=by)
    if params.password is not None:
        users.set_password(params.user, params.password, by=by)
    return _user(context, params.user)


def remove_user(context: RequestContext, params: UserRequest) -> None:
    """Remove a user. Their tokens and sessions become invalid."""
    context.node.guard.users.remove_user(params.user, by=context.rights.principal.name)


def revoke_sessions(context: RequestContext, params: UserRequest) -> None:
    """Revoke all tokens and sessions of a user."""
    context.node.guard.users.sign_out(params.user, by=context.rights.principal.name)


async def change_password(context: RequestContext, params: ChangePasswordRequest, request: Request) -> Response:
    """Change the caller's own password. Existing tokens and sessions become invalid."""
    principal = context.rights.principal
    if principal.generation is None:
        raise NotAuthenticated(f"{principal.name} has no password on this server", fix="log in as a user")
    address = client_address(request.scope)
    await context.run(context.node.guard.by_password, principal.name, params.old, address)
    change = partial(context.node.guard.users.set_password, principal.name, params.new, by=principal.name)
    await context.run(change)
    return Response(status_code=204)


def _user(context: RequestContext, name: str) -> UserDescription:
    user = context.node.guard.users.state.users.get(name)
    if user is None:
        raise unknown_user(name, context.node.guard.users.state)
    return _describe(user)


def _describe(user: User) -> UserDescription:
    return UserDescription(user.name, sorted(user.roles), user.password is not None)


# -- roles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoleDescription:
    name: str
    grants: list[Grant]


@dataclass(frozen=True, kw_only=True)
class GrantRequest:
    role: str = in_path("The role's name; a new one is made by its first grant.")
    privilege: str = in_body("read, write, create, drop or control.")
    kind: str = in_body("topic, source (a stream or table), type or group.")
    pattern: str = in_body("A name, a name prefix followed by *, or * for all names.")
    where: str | None = in_body("Only rows for which this condition of KSQL holds; for: read source.", None)


def list_roles(context: RequestContext) -> list[RoleDescription]:
    """List all roles, with their grants."""
    return [
        RoleDescription(name, list(grants)) for name, grants in sorted(context.node.guard.users.state.roles.items())
    ]


def grant(context: RequestContext, params: GrantRequest) -> None:
    """Grant a privilege to a role."""
    privilege_grant = Grant.of(params.privilege, params.kind, params.pattern, params.where)
    context.node.guard.users.grant(params.role, privilege_grant, by=context.rights.principal.name)


def revoke(context: RequestContext, params: GrantRequest) -> None:
    """Revoke a grant."""
    privilege_grant = Grant.of(params.privilege, params.kind, params.pattern, params.where)
    context.node.guard.users.revoke(params.role, privilege_grant, by=context.rights.principal.name)


# -- audit log ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditEntryDescription:
    """An audit entry. `at` is in ms; `hash` covers the whole entry and is contained in the next one."""

    number: int
    at: int
    action: str
    principal: str
    details: dict[str, Any]
    hash: str


@dataclass(frozen=True)
class AuditVerificationResult:
    count: int
    head: str


@dataclass(frozen=True, kw_only=True)
class ListAuditRequest:
    before: int | None = in_query("Only entries before this number.", None)
    limit: int = in_query("Maximum number of entries to return.", 100, most=_MOST_ENTRIES)


@dataclass(frozen=True, kw_only=True)
class VerifyAuditRequest:
    known: str | None = in_query("The hash of an entry that the log must contain.", None)


def list_audit(context: RequestContext, params: ListAuditRequest) -> list[AuditEntryDescription]:
    """List the audit log, newest first: each action and its user.

    Continue with the number of the last entry as `before`, until entry 0 or an empty list.
    """
    entries = newest_entries(context.log, params.before, params.limit)
    return [AuditEntryDescription(e.number, e.at, e.action, e.principal, dict(e.details), e.hash) for e in entries]


def verify_audit_chain(context: RequestContext, params: VerifyAuditRequest) -> AuditVerificationResult:
    """Verify that no audit entry was changed, removed or inserted."""
    verification = verify_audit(context.log, params.known)
    return AuditVerificationResult(verification.count, verification.head)


ROUTES = (
    Route(
        "POST",
        "/tokens",
        log_in,
        201,
        most=_MAX_LOGIN_BYTES,
        needs=AccessLevel.ANYBODY,
        work=WorkClass.AUTHENTICATION,
    ),
    Route(
        "POST",
        "/session",
        begin_session,
        201,
        most=_MAX_LOGIN_BYTES,
        needs=AccessLevel.ANYBODY,
        work=WorkClass.AUTHENTICATION,
    ),
    Route("GET", "/session", get_session, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("DELETE", "/session", end_session, 204, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("POST", "/session/links", create_login_link, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route(
        "PUT",
        "/password",
        change_password,
        204,
        most=_MAX_LOGIN_BYTES,
        needs=AccessLevel.KNOWN,
        work=WorkClass.AUTHENTICATION,
    ),
    Route("DELETE", "/tokens/{id}", revoke_token, 204, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/users", list_users, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("POST", "/users", add_user, 201, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("PATCH", "/users/{user}", change_user, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("DELETE", "/users/{user}", remove_user, 204, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("POST", "/users/{user}/tokens", create_token, 201, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route(
        "DELETE", "/users/{user}/tokens", revoke_sessions, 204, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION
    ),
    Route("GET", "/roles", list_roles, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("POST", "/roles/{role}/grants", grant, 204, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("DELETE", "/roles/{role}/grants", revoke, 204, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/audit", list_audit, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/audit/verification", verify_audit_chain, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
)
