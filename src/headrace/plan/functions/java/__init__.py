"""Java behaviour that Python lacks: date patterns, time zones, regular expressions, hash order."""
