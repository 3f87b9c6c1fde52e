"""Formats: bytes to rows and back. One module per format, each registered as a component of kind "format"."""

from headrace.formats import csv, json, raw
from headrace.formats.contract import Decoded, Format, Reject

__all__ = ["Decoded", "Format", "Reject", "csv", "json", "raw"]
