"""Runs queries in worker processes: one shared process, or a process per query."""
