"""Passwords are kept as hashes that are slow to compute (scrypt); each says how it was made, so that it may be changed.

`matches` takes as long for a user who is not there as for one who is.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from headrace.errors import WeakPassword

SHORTEST, LONGEST = 8, 1024
"""Characters of a password."""
_COST, _BLOCK, _LANES = 1 << 14, 8, 1  # 16 MB, some 50 ms
_MEMORY = 64 << 20
_KIND = "scrypt"


def hashed(password: str) -> str:
    """`scrypt$COST$BLOCK$LANES$SALT$HASH`."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WeakPassword(
            f"the password has {len(password)} characters", fix=f"take {SHORTEST} to {LONGEST}, of several words say"
        )
    salt = secrets.token_bytes(16)
    return "$".join([_KIND, str(_COST), str(_BLOCK), str(_LANES), _text(salt), _text(_hash(password, salt))])


def matches(password: str, kept: str | None) -> bool:
    """Whether it is the password that was kept; None is that of nobody."""
    kind, cost, block, lanes, salt, digest = (kept or _NOBODY).split("$")
    if kind != _KIND:
        raise ValueError(f"passwords of kind {kind} are not known")
    found = _hash(password[:LONGEST], base64.b64decode(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(found, base64.b64decode(digest)) and kept is not None


def _hash(password: str, salt: bytes, cost: int = _COST, block: int = _BLOCK, lanes: int = _LANES) -> bytes:
    given = password.encode(errors="surrogatepass")
    return hashlib.scrypt(given, salt=salt, n=cost, r=block, p=lanes, maxmem=_MEMORY, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


_NOBODY = "$".join([_KIND, str(_COST), str(_BLOCK), str(_LANES), _text(bytes(16)), _text(bytes(32))])
