"""The record execution mode: runs the chain inside Spark's stateful operator, by key group, with durable state."""
