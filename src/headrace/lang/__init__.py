"""Languages: KSQL text and Python calls become plans. Dialect-specific terms stay in the package of the dialect."""
