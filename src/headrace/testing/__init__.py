"""Tests statements and apps in memory, without a server: statements and records in, records out.

`run` tests an app of the Python API or a script: lists in, lists out, and a manual clock. `World` is its core: a log, a
catalog and running queries. `headrace test` calls `run_cases` and `run_script`.
"""

from headrace.testing.cases import CaseReport, Difference, run_cases, run_script
from headrace.testing.harness import Harness, run
from headrace.testing.memory_log import MemoryRecord
from headrace.testing.world import World

__all__ = ["CaseReport", "Difference", "Harness", "MemoryRecord", "World", "run", "run_cases", "run_script"]
