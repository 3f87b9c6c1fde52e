"""Plans statements: each becomes a catalog action."""
