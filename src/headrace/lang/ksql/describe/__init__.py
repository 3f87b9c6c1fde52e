"""Answers metadata statements: listings, descriptions, plans, the records of a topic. Results are data, not text.

`listing` defines the shape of every result, `lists`, `descriptions` and `print_topic` create them, `text_renderer`
renders them as text.
"""
