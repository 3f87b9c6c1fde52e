"""Aggregates by group and window, and when their results are emitted."""
