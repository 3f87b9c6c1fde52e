"""Spark. The only room that imports pyspark."""
