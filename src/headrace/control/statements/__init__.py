"""Applies statements: permissions, the journal, inserts, descriptions, deployed apps."""
