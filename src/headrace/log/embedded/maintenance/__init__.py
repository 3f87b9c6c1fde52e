"""Merging, retention, compaction, backup and integrity checks."""
