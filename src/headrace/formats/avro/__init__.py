"""Avro: records with the id of their schema."""
