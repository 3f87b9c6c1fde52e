"""The public corpora in memory: what does not pass is in the ledger, and what is in the ledger does not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.lang.ksql.corpus import FOLDER

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["public.jsonl", "sql_public.jsonl"])
def test_ksql(name: str, tmp_path: Path) -> None:
    corpus = FOLDER / name
    if not corpus.exists():
        print(f"no corpus at {corpus}: set HEADRACE_CORPORA; this test says nothing without it")
        return
    # A process of its own: the functions that exist only for the corpus must not be seen by other tests.
    command = [
        sys.executable,
        "-m",
        "tests.conformance.ksql",
        "--corpus",
        str(corpus),
        "--actual",
        str(tmp_path / name),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
