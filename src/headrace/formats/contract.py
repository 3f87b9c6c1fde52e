"""The contract of formats: payloads become rows, and an invalid payload never raises an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schema import Schema

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reject:
    """An invalid payload: its index among the payloads, an error code and a human-readable reason."""

    index: int
    code: str
    reason: str


@dataclass(frozen=True)
class Decoded:
    """Rows in the payloads' order. `good[i]` is the index of the payload that became row `i`."""

    rows: pa.RecordBatch
    good: Indices
    rejects: list[Reject]


class Format(Protocol):
    """Bytes to rows and back. `decode` of what `encode` returned gives equal rows."""

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded: ...
    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray: ...
