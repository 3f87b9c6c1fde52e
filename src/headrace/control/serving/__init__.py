"""Answers pull and push queries from views and topics, and prints topics."""
