"""What web push asks of a sender: messages only the browser can open (RFC 8291), and proof of who it is (RFC 8292).

The server's key is made when it is first needed and lies in the data folder, for its owner only. Browsers are bound to
it: if it is lost, they must subscribe again.
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

MOST = 3_000
"""Bytes of a message: push services take 4,096, encrypted and with all around it."""
_CURVE = ec.SECP256R1()
_RECORD = 4096
_VALID = 12 * 3600  # seconds that a proof is good for; 24 hours are the most
_FILE = "push.key"


def encrypted(
    message: bytes, p256dh: str, auth: str, *, key: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """The body of a push message, for the browser with these keys. The key and the salt are new each time."""
    key, salt = key or ec.generate_private_key(_CURVE), salt or os.urandom(16)
    browser, ours = decoded(p256dh), public_bytes(key)
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, browser))
    secret = _derived(shared, decoded(auth), b"WebPush: info\0" + browser + ours, 32)
    content = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + _RECORD.to_bytes(4, "big") + bytes([len(ours)]) + ours
    return header + AESGCM(content).encrypt(nonce, message + b"\2", None)


def proof(key: ec.EllipticCurvePrivateKey, endpoint: str, contact: str) -> str:
    """The Authorization header for a push service."""
    parts = urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(time.time()) + _VALID, "sub": f"mailto:{contact}"}
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    token = f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
    return f"vapid t={token}, k={encoded(public_bytes(key))}"


def server_key(data: Path) -> ec.EllipticCurvePrivateKey:
    """The one of a data folder."""
    path = data / _FILE
    if not path.exists():
        _make(path)
    key = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _make(path: Path) -> None:
    """Whole or not at all; of two who make it at once, the first counts."""
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


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """With or without padding; raises ValueError."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)
