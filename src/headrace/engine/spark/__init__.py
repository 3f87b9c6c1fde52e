"""Everything that uses Spark's internals: the session, worker processes, failures, state clients."""
