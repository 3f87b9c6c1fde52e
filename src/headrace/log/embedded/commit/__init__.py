"""Appends: placement, group commit within a process and across processes, named writers."""
