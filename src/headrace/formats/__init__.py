"""Bytes to rows and back: one module per format, each declaring itself as a component of kind "format"."""

from headrace.formats import csv, json, raw
from headrace.formats.contract import Decoded, Format, Reject

__all__ = ["Decoded", "Format", "Reject", "csv", "json", "raw"]
