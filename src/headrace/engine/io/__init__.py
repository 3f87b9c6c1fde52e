"""Reads and writes the log from Spark: sources, sinks and what they share, for the embedded log and for Kafka."""
