"""Extents: rows of one topic partition as Arrow bytes, inline in the commit log or in a file.

A file is written and synced before the commit log references it, and never changes afterwards. Its name begins with the
id of the process that wrote it, which distinguishes an orphan from a file that is about to be committed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import DamagedExtent, DiskFull, ReadOnly
from headrace.faultpoints import reach
from headrace.log.embedded.storage.damage import CHECK_OR_RESTORE
from headrace.log.stored_rows import integer_values

_CHUNK = 100_000  # rows per Arrow batch in a merged file
INLINE, FILE, ARCHIVE = "inline", "file", "archive"
LOST, SKIPPED = "lost", "skipped"
"""Marks in place of extents that were damaged: readers stop at the first kind, and go on after the second."""
GONE = (LOST, SKIPPED)


class EncodedExtent(NamedTuple):
    """Encoded rows without offsets, not placed yet. Can be passed between processes."""

    rows: int
    min_time: int
    max_time: int
    bytes: int
    checksum: int
    payload: bytes | None
    file: str | None


class ExtentEncoder:
    """Encodes rows: small ones inline, large ones into files of this writer."""

    def __init__(self, folder: Path, owner: str, inline_bytes: int) -> None:
        self.folder = folder
        self.owner = owner
        self.inline_bytes = inline_bytes

    def stage(self, rows: pa.RecordBatch | pa.Table, times: tuple[int, int] | None = None) -> EncodedExtent:
        """Encode rows, whose first and last time may be known; a file is durable when this returns."""
        times = times or _times(rows)
        if rows.nbytes > self.inline_bytes:
            return self._file(rows, times)
        payload = encode(rows)
        return EncodedExtent(rows.num_rows, *times, len(payload), zlib.crc32(payload), payload, None)

    def _file(self, rows: pa.RecordBatch | pa.Table, times: tuple[int, int]) -> EncodedExtent:
        path = self.new_path("arrow")
        try:
            with open(path, "xb") as out:
                sink = _Summing(out)
                _write_stream(sink, rows)
                out.flush()
                os.fdatasync(out.fileno())
            _sync_folder(path.parent)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise storage_error(error, path.parent) from error
        reach("extent.written")
        return EncodedExtent(rows.num_rows, *times, sink.size, sink.checksum, None, path.name)

    def new_path(self, suffix: str) -> Path:
        """The path of a new file of this writer."""
        return self.folder / f"{self.owner}-{secrets.token_hex(8)}.{suffix}"


class _Summing:
    """A file that computes the checksum while it is written, so that it need not be read again."""

    def __init__(self, out: object) -> None:
        self._out = out
        self.size = 0
        self.checksum = 0
        self.closed = False

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self.checksum = zlib.crc32(view, self.checksum)
        self.size += view.nbytes
        return self._out.write(view)  # type: ignore[attr-defined]

    def flush(self) -> None:
        pass

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _times(rows: pa.RecordBatch | pa.Table) -> tuple[int, int]:
    column = rows.column("$timestamp")
    if len(column) == 1:  # by far the most common case
        only = column[0].as_py()
        return only, only
    times = integer_values(column) if isinstance(column, pa.Array) else column.to_numpy()
    return int(times.min()), int(times.max())


def encode(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as an Arrow stream."""
    if isinstance(rows, pa.RecordBatch):
        # The same bytes as below without the end marker, at a third of the cost: most appends are small.
        return rows.schema.serialize().to_pybytes() + rows.serialize().to_pybytes()
    sink = pa.BufferOutputStream()
    _write_stream(sink, rows)
    return sink.getvalue().to_pybytes()


def _write_stream(sink: object, rows: pa.RecordBatch | pa.Table) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        if isinstance(rows, pa.Table):
            stream.write_table(rows, max_chunksize=_CHUNK)
        else:
            stream.write(rows)


def write_archive(path: Path, rows: pa.Table) -> int:
    """Write rows as a Parquet file and sync it; returns its size."""
    try:
        pq.write_table(rows, path, compression="zstd", write_page_checksum=True)
        with open(path, "rb") as file:
            os.fdatasync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        _sync_folder(path.parent)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise storage_error(error, path.parent) from error
    return size


class ExtentDecoder:
    """Decodes extents and verifies their checksums; keeps the last few files mapped."""

    def __init__(self, folder: Path, archive: Path, keep: int = 8) -> None:
        self.folder = folder
        self.archive = archive
        self._max_mapped = keep
        self._mapped: OrderedDict[str, list[pa.RecordBatch]] = OrderedDict()

    def decode(
        self, kind: str, payload: bytes | None, file: str | None, checksum: int, where: str
    ) -> list[pa.RecordBatch]:
        """The stored rows; FileNotFoundError if the file is gone (the caller lists its extents again)."""
        if kind == INLINE:
            return _checked(pa.py_buffer(payload or b""), checksum, where)
        if kind not in (FILE, ARCHIVE) or file is None:
            raise _damaged(where)
        batches = self._mapped.get(file)  # shared by threads: another one may evict any entry at any time
        if batches is None:
            batches = self._archived(file, where) if kind == ARCHIVE else self._map(file, checksum, where)
            self._mapped[file] = batches
            with contextlib.suppress(KeyError):
                while len(self._mapped) > self._max_mapped:
                    self._mapped.popitem(last=False)
        return batches

    def _map(self, file: str, checksum: int, where: str) -> list[pa.RecordBatch]:
        place = f"{where}, file {file}"
        try:
            data = pa.memory_map(str(self.folder / file)).read_buffer()
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:  # also pa.ArrowInvalid: an empty file cannot be mapped
            raise _damaged(place) from error
        return _checked(data, checksum, place)

    def _archived(self, file: str, where: str) -> list[pa.RecordBatch]:
        try:
            return pq.read_table(self.archive / file, use_threads=False, page_checksum_verification=True).to_batches()
        except FileNotFoundError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _damaged(f"{where}, archive file {file}") from error


def _checked(data: pa.Buffer, checksum: int, where: str) -> list[pa.RecordBatch]:
    if zlib.crc32(data) != checksum:
        raise _damaged(where)
    try:
        return list(pa.ipc.open_stream(data))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _damaged(where) from error


def damaged_extent(what: str, where: str) -> DamagedExtent:
    """The error for stored rows that cannot be used."""
    return DamagedExtent(what, where=where, fix=CHECK_OR_RESTORE)


def _damaged(where: str) -> DamagedExtent:
    return damaged_extent("stored rows do not match their checksum", where)


def storage_error(error: OSError, folder: Path) -> DiskFull | ReadOnly | OSError:
    """Translates an error of the operating system into a headrace error, where one fits."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(f'no space left for "{folder}"', fix="free space or shorten retention, then try again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnly(
            f'folder "{folder}" cannot be written', fix="check the owner and permissions of the data folder"
        )
    return error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
