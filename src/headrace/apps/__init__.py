"""Runs apps of the Python API on Spark: from a script, or interactively in a notebook."""
