"""Scalar functions, by area."""
