"""The execution modes of a query, by the names that settings and checkpoints use."""

from __future__ import annotations

AUTO, NATIVE, RECORD, REALTIME = "auto", "native", "record", "realtime"
