"""Writes the rows of INSERT statements exactly once, however often a statement is executed."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import pyarrow as pa

from headrace.contracts import Append, Log


class IdempotentInserts:
    """Inserts of one program. A statement is identified by its text, and its number among those of the same text."""

    def __init__(self, log: Log, program: str) -> None:
        self._log = log
        self._program = program
        self._executions: Counter[str] = Counter()
        self.written = 0
        """Number of rows written."""
        self.skipped = 0
        """Number of rows skipped, because an earlier run wrote them."""

    def write(self, statement: str, topic: str, rows: pa.RecordBatch) -> None:
        self._executions[statement] += 1
        digest = sha256(f"{statement}\n{self._executions[statement]}".encode()).hexdigest()[:32]
        writer = self._log.writer(f"program.{self._program}.{digest}")
        if writer.append(1, [Append(topic, rows)]) is None:
            self.skipped += len(rows)
        else:
            self.written += len(rows)
        writer.close()
