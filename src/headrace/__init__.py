"""headrace: a streaming platform on Apache Spark."""

__version__ = "0.1.0"
