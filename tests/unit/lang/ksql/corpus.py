"""The statements of the public ksqlDB cases, from the folder in HEADRACE_CORPORA."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FOLDER = Path(os.environ.get("HEADRACE_CORPORA", Path(__file__).parents[5] / "shared" / "corpora")) / "ksql"
FILES = ("public.jsonl", "rest_public.jsonl", "sql_public.jsonl")
SYNTAX = re.compile(r"Syntax Error|Syntax error at|numeric literal|overflows DOUBLE")


@cache
def cases() -> tuple[tuple[str, str, bool], ...]:
    """Id, script, and whether it is expected to be refused by the grammar."""
    if not FOLDER.is_dir():
        print(f"no corpora at {FOLDER}: set HEADRACE_CORPORA; only the tests without them say something")
        return ()
    return tuple(case for name in FILES for case in _read(FOLDER / name))


def _read(path: Path) -> Iterator[tuple[str, str, bool]]:
    for line in path.read_text().splitlines():
        case = json.loads(line)
        expected = case.get("expectedException") or case.get("expectedError") or {}
        refused = bool(SYNTAX.search(json.dumps(expected))) or case["id"] in BARE_PARSE_FAILURES
        yield case["id"], "\n".join(case["statements"]), refused


BARE_PARSE_FAILURES = frozenset({"22dc2d98e38f"})
"""Expected to fail in ksqlDB's parser, without a message that says so."""
