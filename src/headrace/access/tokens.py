"""JSON Web Tokens: those that the server issues, signed with its own secret, and those of an external issuer.

The key alone decides the algorithm: the secret is for HS256, a key of the issuer (JWKS) for RS256. The algorithm in the
token's header is never trusted. A token without an expiry is rejected.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from headrace.access.principal import ISSUER_SEPARATOR
from headrace.access.secret_files import SHORTEST_SECRET, TOKEN_SECRET, load_secret
from headrace.errors import BadAccessToken, BadSetting, MissingDependency, NotAuthenticated
from headrace.secrets import resolve_secrets
from headrace.settings import Settings

OWN = "headrace"
"""The issuer of the server's own tokens, and the id of their key."""
LONGEST = 8192
"""Maximum length of a token in characters."""
LONGEST_LIFE = timedelta(days=366)
_LEEWAY = 5.0  # seconds of allowed clock skew
_REMEMBERED = 60.0  # seconds for which a verified signature is cached
_REFETCH_AFTER = 60.0  # seconds until an unknown key is fetched again
_OLD = 3600.0  # seconds after which keys are fetched again, because the issuer may have revoked some
_PATIENCE = 5.0
_MOST_KEYS = 1 << 20  # maximum bytes of a JWKS
_CACHE_SIZE = 1_000
_WHY = {
    "ExpiredSignatureError": "it has expired",
    "ImmatureSignatureError": "it is not valid yet",
    "InvalidSignatureError": "its signature is wrong",
    "InvalidAlgorithmError": "its algorithm does not match its key",
    "InvalidIssuerError": "its issuer is not the expected one",
    "InvalidAudienceError": "it was issued for another audience",
    "MissingRequiredClaimError": "its subject, audience or expiry is missing",
}
_LONGEST_SUBJECT = 255
_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError)
"""What absurd claims raise in the library: numbers without end, wrong types, deep nesting."""


@dataclass(frozen=True)
class Claims:
    """Verified claims of a token. `roles` come from an issuer's token; for an own token the user store has them."""

    name: str
    expires_at: float
    id: str | None = None
    generation: int | None = None
    roles: frozenset[str] | None = None


class Tokens:
    """Issues and verifies tokens. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        if settings.auth.token_jwks and not (settings.auth.token_issuer and settings.auth.token_audience):
            raise BadSetting(
                'setting "auth.token_jwks" needs "auth.token_issuer" and "auth.token_audience"',
                fix="set both: an issuer also signs tokens for other services, which must not be accepted here",
            )
        self._settings = settings
        self._keys = JwksKeys(settings.auth.token_jwks) if settings.auth.token_jwks else None
        self._known: dict[str, tuple[Claims, float]] = {}
        """Recently verified tokens, and until when they are cached: verifying a signature is slow."""
        self._own: bytes | None = None

    def make(self, name: str, generation: int, life: timedelta) -> tuple[str, str, float]:
        """Returns the token, its id and its expiry."""
        if not timedelta(0) < life <= LONGEST_LIFE:
            raise BadAccessToken(
                "a token must be valid for at least a second and at most a year", fix="for example 12h or 30d"
            )
        now, mark = time.time(), uuid.uuid4().hex
        end = float(int(now + life.total_seconds()))
        claims = {"iss": OWN, "sub": name, "jti": mark, "gen": generation, "iat": int(now), "exp": int(end)}
        return _jwt().encode(claims, self._secret(), "HS256", {"kid": OWN}), mark, end

    def known(self, token: str) -> Claims | None:
        """The cached claims of a token that was verified recently and has not expired."""
        claims, until = self._known.get(token, (None, 0.0))
        return claims if until > time.time() else None

    def claims(self, token: str) -> Claims:
        """Verify a token and return its claims."""
        if (claims := self.known(token)) is not None:
            return claims
        claims = self._read(token)
        if len(self._known) >= _CACHE_SIZE:
            self._known.clear()
        self._known[token] = claims, min(claims.expires_at, time.time() + _REMEMBERED)
        return claims

    def _read(self, token: str) -> Claims:
        jwt = _jwt()
        if len(token) > LONGEST:
            raise _refused("it is too long")
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            if kid in (None, OWN):
                return _own(self._decoded(token, self._secret(), "HS256", own=True))
            key = self._keys.get(str(kid)) if self._keys is not None else None
            if key is None:
                raise _refused("its key is unknown")
            return _foreign(self._decoded(token, key, "RS256", own=False))
        except (jwt.PyJWTError, *_UNREADABLE) as error:  # the library's message may contain parts of the token
            raise _refused(_WHY.get(type(error).__name__, "it cannot be decoded")) from None

    def _decoded(self, token: str, key: Any, algorithm: str, *, own: bool) -> Mapping[str, Any]:
        return _jwt().decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=OWN if own else self._settings.auth.token_issuer,
            audience=None if own else self._settings.auth.token_audience,
            leeway=_LEEWAY,
            options={"verify_aud": not own, "require": ["exp", "sub"]},
        )

    def _secret(self) -> bytes:
        if self._own is None:
            configured = (
                resolve_secrets(self._settings.auth.token_secret, self._settings.storage.data).reveal().encode()
            )
            if configured and len(configured) < SHORTEST_SECRET:
                raise BadSetting(
                    f'setting "auth.token_secret" has fewer than {SHORTEST_SECRET} bytes',
                    fix="choose a longer, random one",
                )
            self._own = configured or load_secret(self._settings.storage.data / TOKEN_SECRET)
        return self._own


def _own(claims: Mapping[str, Any]) -> Claims:
    return Claims(claims["sub"], float(claims["exp"]), claims.get("jti"), claims.get("gen"))


def _foreign(claims: Mapping[str, Any]) -> Claims:
    """The name starts with the issuer's, and names of users contain no `|`, so it is never that of a user."""
    expires_at, id = float(claims["exp"]), claims.get("jti")
    if expires_at > latest_expiry() / 1000:  # a revocation is remembered that long
        raise _refused("it is valid for more than a year")
    if not isinstance(id, str | None):
        raise _refused("its id is not a text")
    roles = claims.get("roles", [])
    named = frozenset(role for role in roles if isinstance(role, str)) if isinstance(roles, list) else frozenset()
    return Claims(f"{claims['iss']}{ISSUER_SEPARATOR}{_subject(claims['sub'])}", expires_at, id, roles=named)


def _subject(subject: object) -> str:
    """The subject, which stands in lists, logs and names: a readable text."""
    if not isinstance(subject, str) or not subject or subject != subject.strip() or not subject.isprintable():
        raise _refused("its subject is empty, or has blanks around it or control characters")
    if len(subject) > _LONGEST_SUBJECT:
        raise _refused(f"its subject has more than {_LONGEST_SUBJECT} characters")
    return subject


def latest_expiry() -> int:
    """When (ms) the last token issued until now will have expired."""
    return int(1000 * (time.time() + LONGEST_LIFE.total_seconds()))


def _refused(why: str) -> NotAuthenticated:
    return NotAuthenticated(f"the token is not valid: {why}", fix="log in again, or ask an admin for a token")


def _jwt() -> Any:
    if find_spec("jwt") is None:
        raise MissingDependency('tokens need the library "pyjwt"', fix="pip install 'headrace[server]'")
    import jwt

    return jwt


# -- an issuer's keys -----------------------------------------------------------------------------------------------


class JwksKeys:
    """RSA keys by key id, from a file or a URL; fetched again periodically, and when a key id is unknown."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._looked_at: float | None = None

    def get(self, kid: str) -> Any:
        with self._lock:
            age = float("inf") if self._looked_at is None else time.monotonic() - self._looked_at
            if age > (_OLD if kid in self._keys else _REFETCH_AFTER):
                self._looked_at = time.monotonic()
                self._keys = self._read()
            return self._keys.get(kid)

    def _read(self) -> dict[str, Any]:
        """Ignores keys for other uses and of other types: a symmetric secret in a public JWKS is no secret."""
        jwt = _jwt()
        try:
            keys = json.loads(self._text())["keys"]
            return {
                str(key["kid"]): jwt.PyJWK(key, algorithm="RS256").key
                for key in keys
                if key.get("kty") == "RSA" and "kid" in key and key.get("use", "sig") == "sig" and key["kid"] != OWN
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
            raise NotAuthenticated(
                f"the issuer's keys cannot be fetched: {error}",
                where=self._place,
                fix='check the setting "auth.token_jwks"',
            ) from error

    def _text(self) -> bytes:
        parts = urlsplit(self._place)
        if parts.scheme not in ("http", "https"):
            return Path(self._place).read_bytes()
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("keys fetched over plain HTTP cannot be trusted; use https")
        with urlopen(self._place, timeout=_PATIENCE) as answer:
            return answer.read(_MOST_KEYS)


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
