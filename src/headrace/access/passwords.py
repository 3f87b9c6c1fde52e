"""Password hashing with scrypt; each hash contains its parameters, so they can be changed later.

`verify_password` takes as long for an unknown user as for a known one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from headrace.errors import WeakPassword

MIN_LENGTH, MAX_LENGTH = 8, 1024
"""Limits on the length of a password, in characters."""
_COST, _BLOCK, _LANES = 1 << 14, 8, 1  # 16 MB, about 50 ms
_MEMORY = 64 << 20
_KIND = "scrypt"


def hash_password(password: str) -> str:
    """`scrypt$COST$BLOCK$LANES$SALT$HASH`."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise WeakPassword(
            f"the password has {len(password)} characters",
            fix=f"choose {MIN_LENGTH} to {MAX_LENGTH} characters, for example several words",
        )
    salt = secrets.token_bytes(16)
    return "$".join([_KIND, str(_COST), str(_BLOCK), str(_LANES), _text(salt), _text(_hash(password, salt))])


def verify_password(password: str, hashed: str | None) -> bool:
    """Whether the password matches the stored hash; None stands for an unknown user."""
    kind, cost, block, lanes, salt, digest = (hashed or _NOBODY).split("$")
    if kind != _KIND:
        raise ValueError(f"the password hash {kind} is not supported")
    actual = _hash(password[:MAX_LENGTH], base64.b64decode(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(actual, base64.b64decode(digest)) and hashed is not None


def _hash(password: str, salt: bytes, cost: int = _COST, block: int = _BLOCK, lanes: int = _LANES) -> bytes:
    password_bytes = password.encode(errors="surrogatepass")
    return hashlib.scrypt(password_bytes, salt=salt, n=cost, r=block, p=lanes, maxmem=_MEMORY, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


_NOBODY = "$".join([_KIND, str(_COST), str(_BLOCK), str(_LANES), _text(bytes(16)), _text(bytes(32))])
