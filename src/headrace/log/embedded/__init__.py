"""The embedded log: a folder, no server."""

from headrace.log.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
