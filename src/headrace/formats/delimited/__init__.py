"""Separated fields: `DELIMITED` as ksqlDB writes it, and CSV after RFC 4180."""
