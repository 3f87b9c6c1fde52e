"""Whole scripts: check all statements, execute them in order, suggest fixes."""
