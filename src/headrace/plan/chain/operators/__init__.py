"""Sources, stateless steps, user operators and processing time."""
