"""Queries by Spark's real-time trigger: element-wise from Kafka to Kafka, in milliseconds, at least once."""
