"""Reads lines of files and pipes, in batches of bounded size.

A slow pipe does not delay a batch: the lines that have arrived form a batch.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.errors import RecordTooLarge

_READ = 1 << 20
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class LineBatch:
    """Lines without their line ends. `numbers[i]` is the number of the first file line of line `i`, from 1 on."""

    origin: str
    lines: list[bytes]
    numbers: range | list[int]
    bytes_read: int

    def place(self, index: int) -> str:
        return f"{self.origin}:{self.numbers[index]}"


def read_lines(fd: int, origin: str, batch_rows: int, max_bytes: int, *, quoted: bool = False) -> Iterator[LineBatch]:
    """Batches of lines of an open file. With `quoted`, a line continues while a quote is open (CSV)."""
    number, rest, ended = 1, b"", False
    join = _join_quoted if quoted else _all_complete
    while not ended:
        data, ended = _available(fd, rest, batch_rows)
        consumed = len(data) - len(rest)
        lines = data.split(b"\n")
        rest = b"" if ended else lines.pop()
        if ended and lines[-1] == b"":
            lines.pop()
        complete, numbers, open_tail = join(lines, number, ended)
        rest = b"".join(line + b"\n" for line in open_tail) + rest
        _check_length(rest, max_bytes, f"{origin}:{number + len(lines) - len(open_tail)}")
        number += len(lines) - len(open_tail)
        complete = [line.removesuffix(b"\r") for line in complete] if b"\r" in data else complete
        for at in range(0, len(complete), batch_rows):
            yield LineBatch(origin, complete[at : at + batch_rows], numbers[at : at + batch_rows], consumed)
            consumed = 0
        if not complete and consumed:
            yield LineBatch(origin, [], [], consumed)


def _has_more(fd: int) -> bool:
    """Whether a read would not block (by poll: select does not support descriptors above 1024)."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


def _available(fd: int, rest: bytes, batch_rows: int) -> tuple[bytes, bool]:
    """Wait for input, then take what can be read without blocking, up to a batch; and whether it was the end."""
    parts, size, rows = [rest], len(rest), 0
    while True:
        part = os.read(fd, _READ)
        parts.append(part)
        size += len(part)
        rows += part.count(b"\n")
        full = size >= _BATCH_BYTES or rows >= batch_rows
        if not part or full or not _has_more(fd):
            return b"".join(parts), not part


def _all_complete(lines: list[bytes], number: int, ended: bool) -> tuple[list[bytes], range, list[bytes]]:
    return lines, range(number, number + len(lines)), []


def _join_quoted(lines: list[bytes], number: int, ended: bool) -> tuple[list[bytes], list[int], list[bytes]]:
    """Join lines where a quoted field contains a line break; the last line may still be open."""
    complete: list[bytes] = []
    numbers: list[int] = []
    open_lines: list[bytes] = []
    is_open = False
    for at, line in enumerate(lines):
        if not open_lines:
            numbers.append(number + at)
        open_lines.append(line)
        is_open ^= line.count(b'"') % 2 == 1
        if not is_open:
            complete.append(b"\n".join(open_lines))
            open_lines = []
    if open_lines and ended:
        complete.append(b"\n".join(open_lines))
        open_lines = []
    return complete, numbers[: len(complete)], open_lines


def _check_length(line: bytes, max_bytes: int, where: str) -> None:
    if len(line) > max_bytes:
        raise RecordTooLarge(
            f"a line has more than {max_bytes} bytes",
            where=where,
            fix="is it text with one record per line? If so, raise the topic's max_record_bytes",
        )
