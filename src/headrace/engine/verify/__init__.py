"""Recomputes a query as a batch and compares the result with what the query has written."""
