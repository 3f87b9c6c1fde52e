"""What the comparer says of a run, beside the ledger of known gaps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).with_name("ledger.toml")


@dataclass(frozen=True)
class Verdict:
    """The comparer's lines, the closing one apart, and its failures."""

    lines: Sequence[str]
    closing: str
    failures: Sequence[Mapping[str, str]]


def compared(comparer: Path, lines: Sequence[str], actual: Path) -> Verdict:
    """Let the comparer judge the cases of `lines`, a part of a corpus or all of it."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, report = Path(folder, "corpus.jsonl"), Path(folder, "report.json")
        corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command = [sys.executable, str(comparer), str(corpus), str(actual)]
        options = ["--json", str(report), "--failures", str(len(lines))]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"the comparer failed: {done.stderr}")
        *printed, closing = done.stdout.splitlines()
        return Verdict(printed, closing, json.loads(report.read_text(encoding="utf-8"))["failures"])


def comparer_of(corpus: Path, name: str) -> Path:
    """The comparer: in the folder HEADRACE_TOOLS, else in `tools` beside the folder of corpora."""
    folders = [Path(os.environ["HEADRACE_TOOLS"])] if "HEADRACE_TOOLS" in os.environ else []
    folders += [parent / "tools" for parent in corpus.resolve().parents]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise SystemExit(f"{name} was not found beside {corpus}; set HEADRACE_TOOLS to its folder")


def ledger(area: str) -> dict[str, dict[str, Any]]:
    """Known gaps of an area, by id."""
    return tomllib.loads(LEDGER.read_text(encoding="utf-8")).get(area, {})


def shown(verdict: Verdict, known: Mapping[str, Mapping[str, Any]], ran: set[str]) -> tuple[list[str], bool]:
    """All lines to print, and whether every failure is a known gap and every gap a failure."""
    failed = {failure["id"] for failure in verdict.failures}
    lines = [_marked(line, known) for line in verdict.lines]
    stale = [f"{gap} passes: it must leave the ledger" for gap in known if gap in ran - failed]
    return [*lines, *stale, verdict.closing], not stale and failed <= known.keys()


def _marked(line: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    gap = known.get(line.split(" ", 1)[0])
    return line if gap is None else f"{line} (known: {gap['reason']})"


def grouped(failures: Sequence[Mapping[str, str]]) -> list[str]:
    """Failures of one kind together, the largest group first: for whoever decides what to mend next."""
    groups: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for failure in failures:
        groups[_kind(failure["reason"])].append(failure)
    lines: list[str] = []
    for kind, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(members):4}  {kind}")
        lines += [f"        {m['id']} {m['file']}, {m['name']}: {m['reason'][:160]}" for m in members[:3]]
    return lines


def _kind(reason: str) -> str:
    """A reason without what differs from case to case."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "~", reason.replace("\n", " "))
    plain = re.sub(r"^\w[\w.-]*(\[\d+\])", "TOPIC", plain)
    plain = re.sub(r"(?<=\.value)\.\w+|expected .*, got .*", lambda m: "" if m[0][0] == "." else "differs", plain)
    return re.sub(r"\b\d[\d.]*\b", "N", plain)[:140]
