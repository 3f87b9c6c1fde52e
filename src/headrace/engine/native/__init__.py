"""The native execution mode: runs plans with Spark's own streaming operators."""
