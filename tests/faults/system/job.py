"""The program that the system's campaign disturbs, its rows, and what must be in its topics and views in the end.

Every stream feeds a table: who has waited for all tables has waited for all queries. Results hang on the rows alone and
not on their order, as nothing is late and the joined table is there first. So plain loops can tell what they must be.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TOPIC = "clicks"
PARTITIONS = 2
KEYS = 100
SCHEMA = "ID string key, N bigint, PAGE string, SPENT bigint, AT bigint"
STREAMS = {"BIG": ("ID", "N", "SPENT"), "NAMED": ("ID", "N", "SPENT", "NAME")}
TABLES = ("SUMS", "PAGES", "SPENDING")
USERS = {f"k{i}": f"u{i % 10}" for i in range(KEYS - 10)}
SCRIPT = f"""
CREATE STREAM clicks (id STRING KEY, n BIGINT, page STRING, spent BIGINT, at BIGINT)
  WITH (kafka_topic='{TOPIC}', key_format='KAFKA', value_format='JSON', timestamp='at');
CREATE TABLE users (id STRING PRIMARY KEY, name STRING)
  WITH (kafka_topic='users', key_format='KAFKA', value_format='JSON', partitions={PARTITIONS});
{"".join(f"INSERT INTO users VALUES ('{key}', '{name}');" for key, name in USERS.items())}

CREATE STREAM big AS SELECT id, n, spent FROM clicks WHERE spent > 20;
CREATE TABLE sums AS SELECT id, COUNT(*) AS n, SUM(spent) AS total FROM big GROUP BY id;
CREATE TABLE pages AS SELECT page, COUNT(*) AS n, SUM(spent) AS total FROM clicks
  WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 2 DAYS) GROUP BY page;
CREATE STREAM named AS SELECT c.id AS id, c.n AS n, c.spent AS spent, u.name AS name FROM clicks c
  LEFT JOIN users u ON c.id = u.id;
CREATE TABLE spending AS SELECT name, COUNT(*) AS n, SUM(spent) AS total FROM named GROUP BY name;
"""
_PAGES = 5
_BEGIN, _PACE, _SIZE = 1_800_000_000_000, 20, 5000  # milliseconds of event time

Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """Row n, which is the same whenever it is sent."""

    id: str
    n: int
    page: str
    spent: int
    at: int

    @property
    def columns(self) -> dict[str, Any]:
        return {"ID": self.id, "N": self.n, "PAGE": self.page, "SPENT": self.spent, "AT": self.at}


def row(seed: int, n: int) -> Row:
    chance = random.Random(f"system.{seed}.{n}")
    key, page = f"k{chance.randrange(KEYS)}", f"/{chance.randrange(_PAGES)}"
    return Row(key, n, page, chance.randrange(100), _BEGIN + n * _PACE)


def record_of(columns: Mapping[str, Any], *, typed: bool) -> Mapping[str, Any]:
    """As a topic takes it over HTTP: in columns, or as a key and a value."""
    return columns if typed else {"key": columns["ID"], "value": {k: v for k, v in columns.items() if k != "ID"}}


def columns_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The other way round."""
    return {"ID": record["key"], **json.loads(record["value"])} if "value" in record else record


def results(rows: Iterable[Row]) -> dict[str, list[Cells]]:
    """What the streams and tables hold that the program makes from these."""
    made: dict[str, list[Cells]] = {"BIG": [], "NAMED": []}
    groups: dict[str, dict[Cells, tuple[int, int]]] = {name: {} for name in TABLES}
    for one in rows:
        name, start = USERS.get(one.id), one.at - one.at % _SIZE
        made["NAMED"].append((one.id, one.n, one.spent, name))
        _add(groups["PAGES"], (one.page, start, start + _SIZE), one.spent)
        if name is not None:
            _add(groups["SPENDING"], (name,), one.spent)
        if one.spent > 20:
            made["BIG"].append((one.id, one.n, one.spent))
            _add(groups["SUMS"], (one.id,), one.spent)
    return made | {name: [key + sums for key, sums in found.items()] for name, found in groups.items()}


def _add(groups: dict[Cells, tuple[int, int]], key: Cells, spent: int) -> None:
    count, total = groups.get(key, (0, 0))
    groups[key] = count + 1, total + spent
