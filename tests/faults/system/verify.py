"""Compares a server that was killed repeatedly with its acknowledgements and with the expected results.

The rows of the source's topic beside what their producers were told; topics and views beside loops over those rows; and
`headrace verify`, which must agree, and must find what is planted.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote

from tests.faults.engine.verify import DIFFERS, compare
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, Findings
from tests.faults.system.job import STREAMS, TABLES, TOPIC, Cells, Row, columns_of, record_of, results, row
from tests.faults.system.load import Load
from tests.faults.system.server import Server

PAGE = 10_000  # records, or rows, in an answer
QUERIES = len(STREAMS) + len(TABLES)
_PLANTED_TOPIC, _PLANTED_VIEW = "BIG", "SUMS"


def check(server: Server, load: Load, seed: int, found: Findings) -> None:
    """While it serves, and nobody writes any more."""
    rows = [_row(columns) for columns in read(server, TOPIC)]
    found.facts = len(load.acknowledged)
    check_source(rows, load, seed, found)
    check_results(server, rows, found)


# -- rows -----------------------------------------------------------------------------------------------------------


def read(server: Server, topic: str) -> list[Mapping[str, Any]]:
    """A topic's records, by their columns."""
    found: list[Mapping[str, Any]] = []
    start = "beginning"
    while True:
        page = server.done("GET", f"/api/v1/topics/{topic}/records?limit={PAGE}&from={quote(start)}")
        if not page["records"]:
            return found
        found += map(columns_of, page["records"])
        start = page["next"]


def _row(columns: Mapping[str, Any]) -> Row:
    return Row(*(columns[name] for name in ("ID", "N", "PAGE", "SPENT", "AT")))


def check_source(rows: Sequence[Row], load: Load, seed: int, found: Findings) -> None:
    """What was acknowledged is there once, what was refused is not, and what nobody knows is there once at most."""
    held = Counter(one.n for one in rows)
    for n in load.acknowledged - held.keys():
        found.add(LOST, f"row {n} was acknowledged")
    for n in load.refused & held.keys():
        found.add(DIFFERS, f"row {n} was refused, and is there")
    for n in held.keys() - load.acknowledged - load.refused - load.unknown:
        found.add(DIFFERS, f"row {n} is there, and nobody was told what became of it")
    for n, times in held.items():
        if times > 1:
            found.add(DUPLICATE, f"row {n} is there {times} times")
    for one in rows:
        if one != row(seed, one.n):
            found.add(DAMAGE, f"{one} is there instead of {row(seed, one.n)}")
    for watched in load.pushed:
        for n, times in Counter(watched).items():
            if times > 1 or n not in held:
                found.add(DIFFERS, f"somebody who watched saw row {n} {times} times; it is there {held[n]} times")
    for told in load.receded:
        found.add(DIFFERS, told)
    for failure in load.failures:
        found.add(DAMAGE, failure)


# -- results --------------------------------------------------------------------------------------------------------


def check_results(server: Server, rows: Sequence[Row], found: Findings) -> None:
    wanted = results(rows)
    for stream, names in STREAMS.items():
        _compare(stream, wanted[stream], (tuple(c[name] for name in names) for c in read(server, stream)), found)
    for table in TABLES:
        _compare(table, wanted[table], pulled(server, table), found)


def pulled(server: Server, table: str) -> list[Cells]:
    """All rows of a view, as a pull query gives them."""
    told = server.done("POST", "/query", {"ksql": f"SELECT * FROM {table};"})
    return [tuple(one["row"]["columns"]) for one in told if "row" in one]


def _compare(name: str, wanted: Iterable[Cells], got: Iterable[Cells], found: Findings) -> None:
    there = sorted(got, key=repr)
    found.rows += len(there)
    compare(name, sorted(wanted, key=repr), there, found)


# -- `headrace verify` ----------------------------------------------------------------------------------------------


def verdicts(server: Server) -> list[Any]:
    """Of all queries."""
    ran = server.run("verify", "--json")
    try:
        return json.loads(ran.stdout)
    except ValueError:
        raise RuntimeError(f"verify ended with {ran.returncode}: {ran.stderr[-1000:]}") from None


def check_verdicts(told: list[Any], found: Findings) -> None:
    if len(told) != QUERIES:
        found.add(DAMAGE, f"verify has judged {[one['query'] for one in told]}, and there are {QUERIES} queries")
    for one in told:
        if not one["equal"]:
            found.add(DIFFERS, f"verify of {one['query']}: {one['counts']}, {one['differences'][:3]}")


def plant_record(server: Server, *, typed: bool) -> None:
    """One more in a topic of results."""
    columns = {"ID": "k0", "N": -1, "SPENT": 50}
    server.done("POST", f"/api/v1/topics/{_PLANTED_TOPIC}/records", [record_of(columns, typed=typed)])


def plant_cell(server: Server) -> None:
    """Another count in a row of a view, while nobody keeps it."""
    with closing(sqlite3.connect(server.data / "views" / f"{_PLANTED_VIEW}.sqlite", isolation_level=None)) as db:
        db.execute("UPDATE rows SET v0 = v0 + 1 WHERE k0 = (SELECT min(k0) FROM rows)")


def check_planted(told: list[Any], found: Findings) -> None:
    """Both are named, and nothing else."""
    wanted = dict.fromkeys((*STREAMS, *TABLES), ({}, 0)) | {_PLANTED_TOPIC: ({"more": 1}, 0), _PLANTED_VIEW: ({}, 1)}
    said = {one["sink"]: (one["counts"], one["view_differing"]) for one in told}
    for sink, damage in wanted.items():
        if said.get(sink) != damage:
            found.add(DAMAGE, f"planted in {sink}: {damage}, and verify says {said.get(sink)}")
