"""Tests without a server: statements and records in, records out, all in memory.

`run` tries an app of the Python API or a script: lists in, lists out, and a clock held in the hand. `World` is the
heart of it: a log, a catalog and running queries. `run_cases` and `run_script` are what `headrace test` calls.
"""

from headrace.testing.cases import Difference, Report, run_cases, run_script
from headrace.testing.topics import Entry
from headrace.testing.trial import Trial, run
from headrace.testing.world import World

__all__ = ["Difference", "Entry", "Report", "Trial", "World", "run", "run_cases", "run_script"]
