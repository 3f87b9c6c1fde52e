"""Copies the checkpoints of queries into a backup of the log, so that each ends at the batch that the log ends at.

The log is copied first, as of one moment, with the number of each query's last batch. A checkpoint is copied after
that, while its query goes on, and is then cut back to that batch: Spark retains the state of some twenty batches. Files
of a checkpoint are replaced and never changed, so they can be hard links.

A checkpoint that cannot be cut back is left out. A restored query then recognizes that its checkpoint is gone, and
waits for a decision (see `recovery`).
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headrace.engine.checkpoint import Checkpoint, list_checkpoints, writer_name
from headrace.engine.io.failing_batch import forget_failing, read_skipped, skipped_writer
from headrace.errors import DiskFull, HeadraceError
from headrace.private_folder import make_private

_RETAINED = 15
"""Batches by which a query may have gone on; Spark retains a few more (`minBatchesToRetain`)."""
_logger = logging.getLogger(__name__)


CopyFile = Callable[[Path, Path], None]
"""Copies or links one file; raises FileNotFoundError if it is gone."""


def copy_checkpoints(source: Path, target: Path, numbers: Mapping[str, int | None], copy_file: CopyFile) -> None:
    """Copies the checkpoints of a data folder; `numbers` are the last numbers of the writers in the copied log."""
    for program in sorted((source / "checkpoints").glob("[!.]*")):
        for checkpoint in list_checkpoints(program):
            copy = Checkpoint(target / "checkpoints" / program.name / checkpoint.folder.name)
            try:
                reason = _copy(checkpoint, copy, numbers, copy_file)
            except (HeadraceError, OSError) as error:  # of one query: the others and the log are copied
                if isinstance(error, DiskFull) or getattr(error, "errno", None) == errno.ENOSPC:
                    raise
                reason = str(error)
            if reason is not None:
                shutil.rmtree(copy.folder, ignore_errors=True)
                name = f"{program.name}/{checkpoint.folder.name}"
                _logger.warning("the checkpoint of query %s was not copied: %s", name, reason)


def _copy(
    checkpoint: Checkpoint, copy: Checkpoint, numbers: Mapping[str, int | None], copy_file: CopyFile
) -> str | None:
    """Copies one checkpoint; the result says why that was not possible."""
    _copy_tree(checkpoint.folder, copy.folder, copy_file)
    manifest = copy.manifest
    if manifest is None or writer_name(manifest.run) not in numbers:
        return "the query started after the log was copied"
    number = numbers[writer_name(manifest.run)]
    last = -1 if number is None else number
    if checkpoint.last_started() > last + _RETAINED:
        return "the query has gone on too far"
    left_out = numbers.get(skipped_writer(manifest.run))
    if len(read_skipped(copy)) != (0 if left_out is None else left_out + 1):
        return "a record was left out after the log was copied"
    forget_failing(copy)
    copy.cut_back(last)
    copy.check_readable()
    return None if copy.last_started() == last else f"batch {last} is not in it"


def _copy_tree(source: Path, target: Path, copy_file: CopyFile) -> None:
    """Copies regular files; those that the query removes meanwhile are not needed."""
    make_private(target)
    for path in _files(source):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        try:
            copy_file(path, copied)
        except FileNotFoundError:
            continue


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(parent, name)).is_symlink())
