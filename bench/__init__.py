"""Measures headrace and its peers: `python -m bench log` runs one table and fails if a target is missed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
