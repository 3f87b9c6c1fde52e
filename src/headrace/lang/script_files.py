"""Reads script files, and resolves the paths of RUN SCRIPT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import BadScript, Unsupported
from headrace.span import Span


def read_script(path: Path | str, span: Span | None = None) -> str:
    """Returns the text of a script file; `span` is that of the RUN SCRIPT statement."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadScript(f'script "{path}" cannot be read: {error.strerror}', span=span, fix="check its path") from error
    except UnicodeDecodeError as error:
        raise BadScript(f'script "{path}" is not UTF-8 text', span=span, fix="save it as UTF-8") from error


def check_files_read(span: Span | None, reads_files: bool) -> None:
    """Raises for remote clients, which must not read this machine's files."""
    if not reads_files:
        raise Unsupported("a server does not support RUN SCRIPT", span=span, fix="send the content of the file")


def named_script(named: str, span: Span | None, around: Sequence[str | None]) -> tuple[str, str]:
    """Returns name and text of the script of RUN SCRIPT; `around` are the enclosing scripts, innermost last."""
    inside = around[-1] if around else None
    path = Path(inside).parent / named if inside else Path(named)
    if any(name is not None and Path(name).resolve() == path.resolve() for name in around):
        raise BadScript(f'script "{path}" includes itself', span=span, fix="remove the RUN SCRIPT")
    return str(path), read_script(path, span)
