"""The fixtures of the unit tests, for tests that need several processes, disks of their own, or time."""

from tests.unit.log.embedded.conftest import clock, folder, log, open_log

__all__ = ["clock", "folder", "log", "open_log"]
