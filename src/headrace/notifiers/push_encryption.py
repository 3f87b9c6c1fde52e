"""Web push cryptography: message encryption for one browser (RFC 8291) and VAPID authorization (RFC 8292).

The server's key is created at first use in the data folder, readable by its owner only. Subscriptions are bound to it:
if it is lost, browsers must subscribe again.
"""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

MAX_MESSAGE_BYTES = 3_000
"""Bytes of a message before encryption: push services accept 4,096, including encryption and headers."""
_CURVE = ec.SECP256R1()
_RECORD = 4096
_VALID = 12 * 3600  # seconds that a VAPID token is valid; RFC 8292 allows at most 24 hours
_FILE = "push.key"


def encrypt_message(
    message: bytes, p256dh: str, auth: str, *, key: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """The encrypted body of a push message for the browser with these keys. Key and salt are new for each message."""
    key, salt = key or ec.generate_private_key(_CURVE), salt or os.urandom(16)
    browser, ours = base64url_decode(p256dh), public_bytes(key)
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, browser))
    secret = _derived(shared, base64url_decode(auth), b"WebPush: info\0" + browser + ours, 32)
    content = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + _RECORD.to_bytes(4, "big") + bytes([len(ours)]) + ours
    return header + AESGCM(content).encrypt(nonce, message + b"\2", None)


def vapid_authorization(key: ec.EllipticCurvePrivateKey, endpoint: str, contact: str) -> str:
    """The Authorization header for a push service."""
    parts = urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(time.time()) + _VALID, "sub": f"mailto:{contact}"}
    signed = ".".join(base64url_encode(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    token = f"{signed}.{base64url_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
    return f"vapid t={token}, k={base64url_encode(public_bytes(key))}"


def load_server_key(data: Path) -> ec.EllipticCurvePrivateKey:
    """The server key of a data folder; created at first use."""
    path = data / _FILE
    if not path.exists():
        _make(path)
    key = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _make(path: Path) -> None:
    """Atomic: of two processes that create the key at once, the first wins."""
    own = path.with_name(f"{_FILE}.{os.getpid()}")
    pem = ec.generate_private_key(_CURVE).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    finally:
        own.unlink()


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def base64url_encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def base64url_decode(text: str) -> bytes:
    """Accepts text with or without padding; raises ValueError."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)
