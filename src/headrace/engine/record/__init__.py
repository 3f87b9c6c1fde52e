"""The record way: the chain inside Spark's stateful operator, page by page, with state that outlives it."""
