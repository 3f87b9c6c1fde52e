"""Run a file of KSQL cases: `python -m tests.conformance.ksql --corpus PATH [--only TEXT] [--mode spark]`.

Every case is run (in mode stream a sample of them: `--seed`, `--sample`); what came out goes to `--actual`, and the
comparer decides what passed. Ends with 0 if every failure is in the ledger of known gaps, and every known gap failed,
and what streamed is what memory wrote.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from headrace.testing.json_payloads import json_text, read_json
from tests.conformance import corpus_functions, verdicts
from tests.conformance.modes import input_schedule, memory

MODES: dict[str, Callable[[memory.Case], memory.Outcome]] = {"memory": memory.run}
"""How a case is run by itself. Each takes a case and gives the comparer's form of what came out."""

LONGEST = 20
"""Seconds after which a case is given up: one that hangs is its own failure, not the run's."""

ACTUAL = Path("build/conformance/ksql.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    lines = [line for line in options.corpus.read_text(encoding="utf-8").splitlines() if line.strip()]
    chosen = [line for line in lines if is_chosen(read_json(line), options.only)]
    if options.mode == "stream":
        chosen = _sampled(chosen, options.seed, options.sample)
        if not chosen:
            print("no case is left to stream")
            return 0
    outcomes = _outcomes(options, chosen)
    write(options.actual, outcomes.lines)
    verdict = verdicts.compared(verdicts.comparer_of(options.corpus, "compare_ksql.py"), chosen, options.actual)
    if options.why:
        print("\n".join([*verdicts.grouped(verdict.failures), verdict.closing]))
        return 0
    ran = {read_json(line)["id"] for line in chosen}
    shown, as_known = verdicts.shown(verdict, verdicts.ledger("ksql"), ran)
    print("\n".join([*shown, *outcomes.notes]))
    return 0 if as_known and outcomes.agree else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.ksql", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="cases, one JSON object per line")
    parser.add_argument("--only", default="", help="only cases whose id, file or name holds this text")
    parser.add_argument("--mode", choices=sorted({*MODES, *TOGETHER}), default="memory")
    parser.add_argument("--actual", type=Path, default=ACTUAL, help="where to write what came out")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes that share the cases")
    parser.add_argument("--seed", type=int, default=0, help="mode stream: which cases, and how they are cut")
    parser.add_argument("--sample", type=int, default=24, help="mode stream: how many cases; 0 is all")
    parser.add_argument("--why", action="store_true", help="failures by reason instead of one by one")
    return parser


def is_chosen(case: memory.Case, only: str) -> bool:
    return not only or any(only.lower() in case[field].lower() for field in ("id", "file", "name"))


class Outcomes(NamedTuple):
    """Lines of ACTUAL; in mode stream also where these are not what memory writes."""

    lines: list[str]
    notes: Sequence[str] = ()
    agree: bool = True


def _outcomes(options: argparse.Namespace, lines: Sequence[str]) -> Outcomes:
    mode, jobs = options.mode, options.jobs
    if mode in TOGETHER:
        return TOGETHER[mode](lines, options)
    if jobs < 2 or len(lines) < 50:
        return Outcomes([outcome(mode, line) for line in lines])
    with ProcessPoolExecutor(jobs) as pool:
        return Outcomes(list(pool.map(outcome, [mode] * len(lines), lines, chunksize=16)))


def _on_spark(lines: Sequence[str], options: argparse.Namespace) -> Outcomes:
    from tests.conformance.modes import spark  # the other modes do without it

    corpus_functions.install()
    return Outcomes([json_text(outcome) for outcome in spark.run([read_json(line) for line in lines], options.jobs)])


def _sampled(lines: Sequence[str], seed: int, size: int) -> list[str]:
    corpus_functions.install()
    chosen, left_out = input_schedule.sample_cases([read_json(line) for line in lines], seed, size)
    for reason, count in left_out.most_common():
        print(f"{count:4} left out: {reason}")
    by_id = {read_json(line)["id"]: line for line in lines}
    return [by_id[case["id"]] for case in chosen]


def _streaming(lines: Sequence[str], options: argparse.Namespace) -> Outcomes:
    from tests.conformance.modes import stream

    began = time.monotonic()
    results = stream.run([read_json(line) for line in lines], options.seed)
    found = [what for result in results for what in result.differences]
    took = f"{time.monotonic() - began:.0f} s"
    closing = f"{len(results)} cases streamed in {took} with seed {options.seed}, {len(found)} differences from memory"
    return Outcomes([json_text(result.outcome) for result in results], [*found, closing], not found)


TOGETHER: dict[str, Callable[[Sequence[str], argparse.Namespace], Outcomes]] = {
    "spark": _on_spark,
    "stream": _streaming,
}
"""Modes in which all cases run at once, as a start costs more than a case."""


def outcome(mode: str, line: str) -> str:
    """A case's line of the corpus -> its line of ACTUAL; a crash is the case's failure."""
    corpus_functions.install()
    case: dict[str, Any] = read_json(line)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    try:
        return json_text(MODES[mode](case))
    except Exception as error:
        return json_text(memory.crashed(case, error))
    finally:
        signal.alarm(0)


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"no result in {LONGEST} seconds")


def write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
