"""The embedded log: a data folder, no server."""

from headrace.log.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
