"""Protobuf: messages, with or without the id of their schema."""
