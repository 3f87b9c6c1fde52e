"""Runners over corpora of other systems' tests, read from a path, and the ledgers of known gaps."""
