"""Parses text to a syntax tree: tokens, the LALR automaton, syntax errors with positions."""
