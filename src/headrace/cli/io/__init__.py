"""Input and output of commands: tables, progress, lines, errors."""
