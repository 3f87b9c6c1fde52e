"""Apps of the Python API at work on Spark: run from a script, or started, sent rows and looked at in a notebook."""
