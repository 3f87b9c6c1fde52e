"""Spark SQL for plans: expressions, aggregates, and nodes over rows of a frame."""
