"""Authenticates clients and returns their rights: users, tokens, passwords and sessions behind one class.

    with Guard(log, settings, clock) as guard:
        principal = guard.by_token(text)
        guard.rights(principal).check(...)

Changes by the command line or by another server take effect within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Self

from headrace.access.audit import Audit
from headrace.access.authorization import ALL_RIGHTS, ANONYMOUS_RIGHTS, Rights
from headrace.access.login_links import LoginLinks
from headrace.access.passwords import verify_password
from headrace.access.principal import ANONYMOUS, LOCAL, Principal
from headrace.access.secret_files import LOCAL_SECRET, load_secret
from headrace.access.sessions import Session, Sessions
from headrace.access.throttle import LoginThrottle
from headrace.access.tokens import Claims, Tokens
from headrace.access.users import User, UserStore
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.errors import BadSetting, HeadraceError, NotAuthenticated
from headrace.settings import Settings

AUTH = LOCAL_AUTH, REQUIRED = "local", "required"
_PAUSE = 0.5  # seconds between two refreshes of the users
_REMEMBERED = 60.0  # seconds for which a verified password is not hashed again
_CACHE_SIZE = 1_000
_FIXED = {LOCAL.name: ALL_RIGHTS, ANONYMOUS.name: ANONYMOUS_RIGHTS}
_logger = logging.getLogger(__name__)


class Guard:
    """Thread-safe."""

    def __init__(self, log: Log, settings: Settings, clock: Clock) -> None:
        if settings.auth.mode not in AUTH:
            raise BadSetting(f'setting "auth.mode" cannot be "{settings.auth.mode}"', fix=f"choose {' or '.join(AUTH)}")
        self.settings = settings
        self.audit = Audit(log, clock)
        self.users = UserStore(log, clock, self.audit)
        self.tokens = Tokens(settings)
        self.sessions = Sessions()
        self.links = LoginLinks()
        self.throttle = LoginThrottle()
        self._salt = secrets.token_bytes(32)
        self._verified: dict[bytes, tuple[int, float]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="headrace-access", daemon=True)
        self._thread.start()

    @property
    def is_required(self) -> bool:
        return self.settings.auth.mode == REQUIRED

    def rights(self, principal: Principal) -> Rights:
        fixed = _FIXED.get(principal.name)
        return self.users.state.rights(principal) if fixed is None or fixed.principal is not principal else fixed

    def rights_of(self, name: str) -> Rights | None:
        """The current rights of the principal of this name; None if there is none, or only an issuer knows it."""
        if name in _FIXED:
            return None if name == ANONYMOUS.name and self.is_required else _FIXED[name]
        user = self.users.state.users.get(name)
        return None if user is None else self.rights(_principal(user, ""))

    # -- authentication ---------------------------------------------------------------------------------------------

    @cached_property
    def _local_secret(self) -> bytes:
        return load_secret(self.settings.storage.data / LOCAL_SECRET)

    def create_local_secret(self) -> None:
        """Create the secret of the data folder, unless it exists, so that commands can read it."""
        assert self._local_secret

    def is_local_secret(self, secret: str) -> bool:
        """Whether this is the secret of the data folder. It is too long to be guessed, so there is no throttle."""
        return hmac.compare_digest(secret.encode(errors="surrogatepass"), self._local_secret)

    def by_password(self, name: str, password: str, address: str) -> Principal:
        """Clients send the password with every request, so a verified one is cached for a while."""
        if name == LOCAL.name and self.is_local_secret(password):
            return LOCAL
        user = self.users.state.users.get(name)
        digest = hmac.digest(self._salt, f"{name}\0{password}".encode(errors="surrogatepass"), hashlib.sha256)
        known = self._verified.get(digest)
        if user is not None and known is not None and known[0] == user.generation and known[1] > time.monotonic():
            return _principal(user, "password")
        with self.throttle.one(name, address) as right:
            user = self._newest(name)
            is_right = verify_password(password, None if user is None else user.password)
            if user is None or not is_right:
                self.audit.note("log-in-failed", name, address=address)
                raise NotAuthenticated(
                    "the user name or password is wrong", fix="try again, or ask an admin to set a new password"
                )
            right()
        if len(self._verified) >= _CACHE_SIZE:
            self._verified.clear()
        self._verified[digest] = (user.generation, time.monotonic() + _REMEMBERED)
        return _principal(user, "password")

    def by_token(self, token: str, claims: Claims | None = None) -> Principal:
        """`claims` are the token's claims, if they were verified already; without them this may read the log."""
        if claims is None:
            claims = self.tokens.claims(token)
            if claims.roles is None:
                self._newest(claims.name)
        if claims.id is not None and claims.id in self.users.state.revoked:
            raise NotAuthenticated("the token was revoked", fix="ask an admin for a new token")
        if claims.roles is not None:
            return Principal(claims.name, claims.roles, "token")
        return self.revalidate(Principal(claims.name, credential="token", generation=claims.generation))

    def by_session(self, cookie: str) -> tuple[Principal, Session] | None:
        """None if there is no such session. One from before a password change is ended here."""
        session = self.sessions.find(cookie)
        if session is None:
            return None
        principal = replace(session.principal, credential="session")
        if principal.name == LOCAL.name:
            return principal, session
        try:
            return self.revalidate(principal), session
        except NotAuthenticated:
            self.sessions.end(cookie)
            return None

    def make_token(self, name: str, life: timedelta | None = None) -> tuple[str, str, float]:
        """Create a token for an existing user; returns the token, its id and its expiry."""
        user = self.users.state.users.get(name)
        if user is None:
            raise NotAuthenticated(f'user "{name}" does not exist', fix="`headrace user list` shows all users")
        return self.tokens.make(name, user.generation, life or self.settings.auth.token_ttl)

    def revalidate(self, principal: Principal) -> Principal:
        """The principal with its current roles; credentials from before a password change are rejected."""
        user = self.users.state.users.get(principal.name)
        if user is None or principal.generation not in (None, user.generation):
            raise NotAuthenticated("the credentials are no longer valid", fix="log in again")
        return _principal(user, principal.credential)

    # -- changes by other processes ---------------------------------------------------------------------------------

    def _newest(self, name: str) -> User | None:
        """The user, also one that another process has added a moment ago."""
        self._refresh()
        return self.users.state.users.get(name)

    def _follow(self) -> None:
        while not self._ending.wait(_PAUSE):
            self._refresh()

    def _refresh(self) -> None:
        try:
            self.users.refresh()
        except HeadraceError as error:  # for example a log that does not respond: the next refresh may succeed
            _logger.warning("users and grants were not refreshed: %s", error)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self.audit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _principal(user: User, credential: str) -> Principal:
    return Principal(user.name, user.roles, credential, user.generation)
