"""On-disk storage: the SQLite store, extents, topic catalog, reader, total order."""
