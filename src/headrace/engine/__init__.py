"""Runs plans on Spark. The only package that imports pyspark."""
