"""Materialized views: the last row of every key of a table, stored with the topic position that the rows reflect."""
