"""Endless responses: topic tails and push queries over server-sent events and WebSocket."""
