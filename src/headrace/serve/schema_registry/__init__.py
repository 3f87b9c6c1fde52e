"""The schema registry over HTTP, compatible with Confluent's clients."""
