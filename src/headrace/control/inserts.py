"""Rows that statements write: each once, however often its statement is read."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import pyarrow as pa

from headrace.contracts import Append, Log


class Inserts:
    """Of one program. A statement is known by its text, and by its number among those of the same text."""

    def __init__(self, log: Log, program: str) -> None:
        self._log = log
        self._program = program
        self._read: Counter[str] = Counter()
        self.done = 0
        """Rows that were written."""
        self.repeated = 0
        """Rows that were there from a run before."""

    def write(self, statement: str, topic: str, rows: pa.RecordBatch) -> None:
        self._read[statement] += 1
        mark = sha256(f"{statement}\n{self._read[statement]}".encode()).hexdigest()[:32]
        writer = self._log.writer(f"program.{self._program}.{mark}")
        if writer.append(1, [Append(topic, rows)]) is None:
            self.repeated += len(rows)
        else:
            self.done += len(rows)
        writer.close()
