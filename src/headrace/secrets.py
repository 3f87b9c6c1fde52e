"""Secrets by reference: `${env:NAME}`, `${file:PATH}`, or `${secret:NAME}` for one that `headrace secret set` has kept.

A reference may stand in any setting that is secret, and in what a statement says of a password: only the reference is
journalled, listed and shown. It is resolved where the secret is used, by `resolve`. What was resolved is also known to
`masked`, through which the log file goes: a library that puts a password into an error does not put it there.

Kept secrets are files that only their owner can read, in the folder `secrets` of the data folder. They are not
encrypted: the key would have to lie beside them. They are in no backup and in no support bundle.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from headrace.errors import BadSecret, UnknownSecret

MASK = "********"
_REFERENCE = re.compile(r"\$\{(env|file|secret):([^}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST = 64 << 10  # bytes
_SHORTEST = 4  # what is shorter stands in any text
_resolved: set[str] = set()


class Secret:
    """A text that does not show: not printed, not in an error, and not in a file, as it cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> str:
        raise TypeError("a secret stays in its process")


def resolve(text: str, data: Path, written: Callable[[str], str] = str) -> Secret:
    """The text with the secrets that it refers to; `data` is the folder of those that are kept.

    `written` is how a secret is written as a part of the text, if it is not all of it.
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


def masked(text: str) -> str:
    """Without what was resolved in this process."""
    for secret in sorted(_resolved, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _from_environment(name: str, data: Path) -> str:
    if name not in os.environ:
        raise UnknownSecret(f'there is no "{name}" in the environment', fix="set it for the process that needs it")
    return os.environ[name]


def _from_file(name: str, data: Path) -> str:
    """Without the line's end, which editors add."""
    try:
        with Path(name).expanduser().open("rb") as file:
            return _text(file.read(_LONGEST + 1)).rstrip("\r\n")
    except OSError as error:
        raise UnknownSecret(f'"{name}" cannot be read: {error.strerror}', fix="check the path and its owner") from None


def _kept(name: str, data: Path) -> str:
    try:
        return _text(_path(name, data).read_bytes())
    except FileNotFoundError:
        raise UnknownSecret(f'there is no secret "{name}"', fix=f"headrace secret set {name}") from None


_READERS = {"env": _from_environment, "file": _from_file, "secret": _kept}


def _text(content: bytes) -> str:
    try:
        if len(content) <= _LONGEST:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise BadSecret(f"a secret is a text of {_LONGEST} bytes at most", fix="check what was named") from None


# -- those that are kept --------------------------------------------------------------------------------------------


def keep(name: str, text: str, data: Path) -> None:
    """Keep a secret, in place of one of that name."""
    path = _path(name, data)
    _text(text.encode())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = path.with_name(f".{name}.partial")
    staged.unlink(missing_ok=True)
    with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.rename(path)


def kept(data: Path) -> list[str]:
    """Their names."""
    folder = data / "secrets"
    return sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def forget(name: str, data: Path) -> None:
    if name not in kept(data):
        raise UnknownSecret(f'there is no secret "{name}"', fix="`headrace secret list` shows them")
    _path(name, data).unlink()


def _path(name: str, data: Path) -> Path:
    if not _NAME.fullmatch(name):
        raise BadSecret(f'a secret cannot be called "{name[:80]}"', fix="use letters, digits, _ and -, at most 64")
    return data / "secrets" / name
