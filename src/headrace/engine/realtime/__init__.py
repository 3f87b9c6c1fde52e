"""Runs queries with Spark's real-time trigger: stateless from Kafka to Kafka, in milliseconds, at least once."""
