"""Answers metadata statements: listings, descriptions, plans, the records of a topic. Results are data, not text.

`lang.listing` defines the shape of every result; `lists` and `descriptions` create them, with ksqlDB's field names.
"""
