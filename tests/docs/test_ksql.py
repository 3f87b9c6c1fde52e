"""The KSQL of the documentation runs in memory, and gives the results that are shown.

A page is one world: its `ksql` blocks run one after the other, as if they were typed. A `text` block that directly
follows shows what came of it, one line each: the records that the block's queries wrote, or those of all queries if the
block starts none (source, key, value, and `@` the time where it is not 0), what went to the dead letters, or the
refusal. Where no `text` block follows, nothing may be refused. A line `-- time: 5000` lets the clock reach 5000 while
nothing comes. Blocks marked `sql` are only planned: their answers need a server. A block with a second word is a file,
see `test_examples`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.lang.ksql.scripts.checker import check_script
from headrace.testing import World
from headrace.testing.case_records import case_document
from headrace.testing.json_payloads import json_text
from headrace.testing.memory_log import MemoryRecord
from tests.docs.pages import PAGES, ROOT

BLOCK = re.compile(r"^```(ksql|sql)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.M | re.S)
CLOCK = re.compile(r"^-- time: (\d+)\n", re.M)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Kind, statements and what they show."""
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_ksql_of_a_page_gives_its_results(page: Path) -> None:
    world = World()
    for kind, statements, shown in blocks(page):
        lines = list(outcome(world, statements)) if kind == "ksql" else list(plan(world, statements))
        if shown:
            assert [_squeezed(line) for line in lines] == [_squeezed(line) for line in shown.splitlines()], statements
        else:
            assert not [line for line in lines if line.startswith("refused")], "\n".join(lines)


def _squeezed(line: str) -> str:
    """Columns may be aligned as it looks best."""
    return re.sub(r"  +", " ", line.rstrip())


def plan(world: World, statements: str) -> Iterator[str]:
    """Parse and plan beside the world, and leave it as it is."""
    for error in check_script(statements, catalog=world.catalog, properties=world.planner.properties).errors:
        yield from f"refused {error}".splitlines()


def outcome(world: World, statements: str) -> Iterator[str]:
    """Run a block, and tell what came of it."""
    before, problems, known = len(world.topics.entries), len(world.problems), set(world.running)
    try:
        for part, now in _timed(statements):
            world.execute(part)
            if now is not None:
                world.tick(now)
    except HeadraceError as error:
        yield from f"refused {error}".splitlines()
    own = set(world.running) - known or known
    for entry in world.topics.entries[before:]:
        if entry.origin in own:
            yield record(world, entry)
    for problem in world.problems[problems:]:
        yield f"dead letter  {problem.code}: {problem.reason}"


def _timed(statements: str) -> Iterator[tuple[str, int | None]]:
    """The statements up to each `-- time`, and that time."""
    *parts, last = CLOCK.split(statements)
    for part, now in zip(parts[::2], parts[1::2], strict=True):
        yield part, int(now)
    yield last, None


def record(world: World, entry: MemoryRecord) -> str:
    source = world.declared[entry.topic]
    told = case_document(entry, source)
    window = f" [{told['window']['start']}, {told['window']['end']}]" if told["window"] else ""
    time = f"  @{entry.timestamp}" if entry.timestamp else ""
    return f"{source.name}  {json_text(told['key'])}{window}  {json_text(told['value'])}{time}"
