"""A plan over a bounded read: by the chain inside Spark, or by Spark's own operators; `compile` says which."""
