"""The attack campaign: what a client that means harm tries against a real server, and what must hold."""
