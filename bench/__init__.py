"""Measures headrace beside its peers: `python -m bench log` runs one table and fails when a target is missed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
