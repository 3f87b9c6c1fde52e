"""Runs plans over a bounded read: with Spark's own operators, or with the chain inside Spark."""
