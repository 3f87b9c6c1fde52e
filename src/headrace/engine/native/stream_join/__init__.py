"""Joins of two streams with Spark's own stream-stream join."""
