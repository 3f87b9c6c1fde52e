"""The resources under /api/v1, one module each."""
