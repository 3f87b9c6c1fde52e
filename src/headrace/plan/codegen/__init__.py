"""Generates Python source for expressions, compiled once per query."""
