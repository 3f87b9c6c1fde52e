"""The public corpora, KSQL in memory and a sample of REST against the real server.

What does not pass is in the ledger, and what is in the ledger does not pass.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance import goldens
from tests.unit.lang.ksql.corpus import FOLDER

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("runner", "name", "options"),
    [("ksql", "public.jsonl", ()), ("ksql", "sql_public.jsonl", ()), ("rest", "rest_public.jsonl", ("--sample", "8"))],
)
def test_the_ledger_lists_exactly_the_failing_cases(
    runner: str, name: str, options: Sequence[str], tmp_path: Path
) -> None:
    corpus = FOLDER / name
    if not corpus.exists():
        print(f"no corpus at {corpus}: set HEADRACE_CORPORA; this test says nothing without it")
        return
    # A process of its own: the functions that exist only for the corpus must not be seen by other tests.
    files = ["--corpus", str(corpus), "--actual", str(tmp_path / name)]
    command = [sys.executable, "-m", f"tests.conformance.{runner}", *files, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = goldens.digests((tmp_path / name).read_text(encoding="utf-8").splitlines())
    assert found
    assert goldens.differing(Path(name).stem, found) == []


def test_generated_statements_give_their_golden_results() -> None:
    assert len(goldens.generated()) == goldens.STATEMENTS
    assert goldens.generated_differences() == []
