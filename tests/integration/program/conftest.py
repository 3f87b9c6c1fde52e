"""The fixtures of the command line's unit tests, for a program that runs in a process of its own."""

from tests.unit.cli.conftest import headrace, lines

__all__ = ["headrace", "lines"]
