"""What a pull worker uses, from the system: None where the system does not say it, or the process has ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cpu_seconds(pid: int) -> float | None:
    """The processor time of a process since its start."""
    with suppress(OSError, ValueError, IndexError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    return None


def resident_bytes(pid: int) -> int | None:
    """The memory of a process."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
