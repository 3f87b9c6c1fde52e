"""Resolves references to secrets: `${env:NAME}`, `${file:PATH}`, or `${secret:NAME}` (saved by `headrace secret set`).

Any secret setting may contain a reference, and so may a password in a statement: only the reference is journalled,
listed and shown. `resolve_secrets` resolves it where the secret is used. `redact` removes resolved secrets from the log
file, so a password that a library puts into an error message does not appear there.

Saved secrets are files that only their owner can read, in the folder `secrets` of the data folder. They are not
encrypted, because the key would have to be stored next to them. Backups and support bundles do not contain them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from headrace.errors import BadSecret, UnknownSecret, suggestion
from headrace.private_folder import make_private

MASK = "********"
_REFERENCE = re.compile(r"\$\{(env|file|secret):([^}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST = 64 << 10  # bytes
_SHORTEST = 4  # shorter secrets are not redacted: they occur in ordinary text
_resolved: set[str] = set()


class Secret:
    """A text that is masked when printed or shown in an error, and cannot be pickled, so it never reaches a file."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> str:
        raise TypeError("a secret stays in its process")


def resolve_secrets(text: str, data: Path, written: Callable[[str], str] = str) -> Secret:
    """Replace the references in a text by their secrets; `data` is the data folder, which holds the saved ones.

    `written` encodes a secret that is only a part of the text.
    """
    whole = _REFERENCE.fullmatch(text)
    return Secret(_read(whole, data) if whole else _REFERENCE.sub(lambda one: written(_read(one, data)), text))


def is_reference(text: str) -> bool:
    """Whether the whole text is one reference."""
    return _REFERENCE.fullmatch(text) is not None


def _read(reference: re.Match[str], data: Path) -> str:
    secret = _READERS[reference[1]](reference[2], data)
    if len(secret) >= _SHORTEST:
        _resolved.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))
    return secret


def redact(text: str) -> str:
    """Mask all secrets that this process has resolved."""
    for secret in sorted(_resolved, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _from_environment(name: str, data: Path) -> str:
    if name not in os.environ:
        raise UnknownSecret(f'environment variable "{name}" is not set', fix="set it for the process that needs it")
    return os.environ[name]


def _from_file(name: str, data: Path) -> str:
    """The trailing newline is removed, since editors add one."""
    try:
        with Path(name).expanduser().open("rb") as file:
            return _text(file.read(_LONGEST + 1)).rstrip("\r\n")
    except OSError as error:
        raise UnknownSecret(f'"{name}" cannot be read: {error.strerror}', fix="check the path and its owner") from None


def _from_data_folder(name: str, data: Path) -> str:
    try:
        return _text(_path(name, data).read_bytes())
    except FileNotFoundError:
        raise _unknown_secret(name, data, f"headrace secret set {name}") from None


_READERS = {"env": _from_environment, "file": _from_file, "secret": _from_data_folder}


def _text(content: bytes) -> str:
    try:
        if len(content) <= _LONGEST:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise BadSecret(f"a secret is a string of at most {_LONGEST} bytes", fix="check the source of the secret") from None


# -- saved secrets --------------------------------------------------------------------------------------------------


def save_secret(name: str, text: str, data: Path) -> None:
    """Save a secret; replaces one of the same name."""
    path = _path(name, data)
    _text(text.encode())
    make_private(path.parent)
    staged = path.with_name(f".{name}.partial")
    staged.unlink(missing_ok=True)
    with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.rename(path)


def secret_names(data: Path) -> list[str]:
    """The names of the saved secrets."""
    folder = data / "secrets"
    return sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def delete_secret(name: str, data: Path) -> None:
    if name not in secret_names(data):
        raise _unknown_secret(name, data, "`headrace secret list` shows them")
    _path(name, data).unlink()


def _path(name: str, data: Path) -> Path:
    if not _NAME.fullmatch(name):
        raise BadSecret(
            f'"{name[:80]}" is not a valid name for a secret', fix="use letters, digits, _ and -, at most 64"
        )
    return data / "secrets" / name


def _unknown_secret(name: str, data: Path, fix: str) -> UnknownSecret:
    return UnknownSecret(f'secret "{name}" does not exist', fix=suggestion(name, secret_names(data), fix))
