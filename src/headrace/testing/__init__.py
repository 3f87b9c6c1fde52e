"""Tests without a server: statements and records in, records out, all in memory.

`World` is the heart: a log, a catalog and running queries. `run_cases` and `run_script` are what `headrace test` calls.
"""

from headrace.testing.cases import Difference, Report, run_cases, run_script
from headrace.testing.topics import Entry
from headrace.testing.world import World

__all__ = ["Difference", "Entry", "Report", "World", "run_cases", "run_script"]
