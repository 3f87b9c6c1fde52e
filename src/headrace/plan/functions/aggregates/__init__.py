"""Aggregate functions."""
