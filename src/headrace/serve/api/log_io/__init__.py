"""Records between HTTP and the log: decoding, encoding, positions, idempotent producers."""
