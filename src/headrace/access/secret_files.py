"""Secrets in files of the data folder, which only the folder's owner can read.

load_secret(data / LOCAL_SECRET)      the server: creates it at first use
find_local_secret(data)               a command: the secret to send to this folder's server
"""

from __future__ import annotations

import os
import secrets
import uuid
from contextlib import suppress
from pathlib import Path

from headrace.errors import SecretDamaged
from headrace.private_folder import make_private

TOKEN_SECRET = "token.secret"
"""Signs the server's own tokens."""
LOCAL_SECRET = "local.secret"
"""Makes its reader the operator: it is accepted as a token, and as the password of the user `local`."""
SHORTEST_SECRET = 32


def load_secret(path: Path) -> bytes:
    """The secret, created at first use, by one of several processes."""
    if not path.exists():
        _create(path)
    return _checked(path, path.read_bytes())


def find_local_secret(data: Path) -> str | None:
    """The secret of a data folder; None if it has none yet, or if this user may not read it."""
    path = data / LOCAL_SECRET
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        return _checked(path, path.read_bytes()).decode()
    return None


def _create(path: Path) -> None:
    make_private(path.parent)
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(new, path)  # atomic and complete: the first process to create it wins
    finally:
        new.unlink(missing_ok=True)


def _checked(path: Path, secret: bytes) -> bytes:
    """Refuses a damaged file: an empty secret would open the server to everybody."""
    if len(secret) < SHORTEST_SECRET or not secret.isascii():
        raise SecretDamaged(
            "the secret is damaged", where=str(path), fix="delete the file and restart the server, which creates it"
        )
    return secret
