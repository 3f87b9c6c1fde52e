"""Formats: payloads to columns and back. A module or sub-package per format; `contract` says what a format is."""
