"""Golden results: a digest of what every public case gives, and of what 2,000 generated statements give.

    python -m tests.conformance.goldens compare NAME ACTUAL   compare a file that a runner wrote with the golden of NAME
    python -m tests.conformance.goldens bless NAME ACTUAL     make that file the golden
    python -m tests.conformance.goldens generated [--bless]   run the generated statements and compare

A refactoring changes no result, so the difference is empty. Digests leave out the wording of error messages; codes,
places and rows are in.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.steps import Context, Problem
from tests.ksql_strategies import Example

FOLDER = Path(__file__).parent / "golden"
GENERATED = FOLDER / "generated.jsonl.gz"
STATEMENTS = 2000


def digests(lines: Sequence[str]) -> dict[str, str]:
    """A digest of each outcome, by the case's id."""
    outcomes = [json.loads(line) for line in lines if line.strip()]
    return {outcome["id"]: _digest(_stable(outcome)) for outcome in outcomes}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


def _stable(value: Any) -> Any:
    """Errors keep their code and place, not their text; the numbers that a server counts and today's times are out."""
    if isinstance(value, list):
        return [_stable(item) for item in value]
    if isinstance(value, str):
        return _QUERY_ID.sub(r"\1_N", value)
    if isinstance(value, int) and value > _RECENT:
        return "now"
    if not isinstance(value, dict):
        return value
    is_error = "code" in value or "error_code" in value
    dropped = {"message", "fix", "stackTrace"} if is_error else {"commandSequenceNumber"}
    return {key: _stable(item) for key, item in value.items() if key not in dropped}


_QUERY_ID = re.compile(r"\b((?:CTAS|CSAS|INSERTQUERY|transient)_\w+?)(?:_\d+)+\b")
_RECENT = 1_760_000_000_000
"""Milliseconds; records of the cases are older, what a server stamps itself is later."""


def golden(name: str) -> dict[str, str]:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return dict(line.split() for line in text.splitlines())  # type: ignore[misc]


def bless(name: str, found: Mapping[str, str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f"{case} {digest}\n" for case, digest in sorted(found.items())]
    (FOLDER / f"{name}.txt").write_text("".join(lines), encoding="utf-8")


def differing(name: str, found: Mapping[str, str]) -> list[str]:
    """The ids whose outcome is not the golden one; cases that the golden does not know are none of them."""
    known = golden(name)
    return sorted(case for case, digest in found.items() if case in known and known[case] != digest)


# -- generated statements -------------------------------------------------------------------------------------------


def outcome(text: str, records: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the chain makes of a statement over records: rows, and problems without their wording."""
    given = [(topic, RawRecord(_bytes(key), _bytes(value), time)) for topic, key, value, time in records]
    problems: list[Problem] = []
    stores: dict[str, dict[Any, Any]] = {}
    context = Context(lambda name: stores.setdefault(name, {}), problems.append)
    rows = Pipeline(Example(text, ()).query, context).run(given)
    return {"rows": [_shown(row) for row in rows], "problems": sorted(problem.code for problem in problems)}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _shown(row: RawRecord) -> list[Any]:
    return [None if part is None else part.decode("latin-1") for part in (row.key, row.value)] + [row.time]


def generated() -> list[dict[str, Any]]:
    with gzip.open(GENERATED, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def generated_differences() -> list[str]:
    return [
        example["text"] for example in generated() if outcome(example["text"], example["records"]) != example["outcome"]
    ]


def _generate() -> Iterator[dict[str, Any]]:
    """New statements, with what they give today."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from tests.ksql_strategies import examples

    found: dict[str, dict[str, Any]] = {}

    @seed(20)
    @settings(
        max_examples=3 * STATEMENTS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(examples())
    def collect(example: Example) -> None:
        records = [
            [topic, *[None if part is None else part.decode() for part in (raw.key, raw.value)], raw.time]
            for topic, raw in example.records
        ]
        one = {"text": example.text, "records": records, "outcome": outcome(example.text, records)}
        if len(found) < STATEMENTS:
            found.setdefault(_digest(one), one)

    collect()
    yield from found.values()


def _bless_generated() -> int:
    lines = [json.dumps(example) + "\n" for example in _generate()]
    GENERATED.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return len(lines)


# -- the command ----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.goldens", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("compare", "bless"):
        one = commands.add_parser(command)
        one.add_argument("name", choices=["public", "sql_public", "rest_public"])
        one.add_argument("actual", type=Path)
    commands.add_parser("generated").add_argument("--bless", action="store_true")
    options = parser.parse_args(arguments)
    if options.command == "generated":
        if options.bless:
            print(f"wrote {_bless_generated()} statements")
            return 0
        return _report("generated", generated_differences(), len(generated()))
    found = digests(options.actual.read_text(encoding="utf-8").splitlines())
    if options.command == "bless":
        bless(options.name, found)
        print(f"wrote {len(found)} digests")
        return 0
    return _report(options.name, differing(options.name, found), len(found))


def _report(name: str, different: Sequence[str], count: int) -> int:
    for one in different:
        print(f"differs from the golden: {one}")
    print(f"{name}: {count} outcomes compared, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
