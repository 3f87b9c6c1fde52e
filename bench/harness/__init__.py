"""Runs and measures the cases of a table; `bench/tables` defines the tables."""
