"""Statements and the plans they must become: `NAME.ksql` and, beside it, `NAME.txt`.

A script whose first line is `--fail: CODE ...` must be refused with exactly these codes, in this order; its text then
holds the errors as people see them. `make bless` writes all texts anew: read the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

from headrace.lang.ksql.scripts.checker import CheckedScript, check_script
from headrace.plan.explain import tree
from headrace.plan.nodes import Query

FOLDER = Path(__file__).parent
_FAIL = "--fail:"


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("*/*.ksql"))


def codes(script: Path) -> list[str]:
    """The codes of the errors that the script must have."""
    first = script.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix(_FAIL).split() if first.startswith(_FAIL) else []


def checked(script: Path) -> CheckedScript:
    return check_script(script.read_text(encoding="utf-8"), script.name)


def outcome(found: CheckedScript) -> str:
    """All errors, or else the plan of every query."""
    queries: list[Query] = [q for p in found.planned if (q := getattr(p.action, "query", None))]
    shown = [str(error) for error in found.errors] or [f"{query.id}\n{tree(query)}" for query in queries]
    return "\n\n".join(shown) + "\n"


def text_of(script: Path) -> Path:
    return script.with_suffix(".txt")
