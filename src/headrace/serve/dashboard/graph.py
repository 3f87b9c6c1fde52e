"""Where the data flows, as a picture of boxes and lines: topics, the queries between them, and views at the end.

A box stands to the right of everything that it reads. Within a column boxes stand near what they are joined with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contracts import INTERNAL, dead_letter_topic
from headrace.serve.api.letters import SUFFIX
from headrace.serve.dashboard.pulse import Moment

TOPIC, QUERY, VIEW = "topic", "query", "view"
WIDTH, HEIGHT = 190, 58
_GAP_X, _GAP_Y = 70, 22
_SWEEPS = 4


@dataclass(frozen=True)
class Id:
    kind: str
    name: str


@dataclass(frozen=True)
class Box:
    id: Id
    x: int
    y: int


@dataclass(frozen=True)
class Picture:
    boxes: tuple[Box, ...]
    lines: tuple[tuple[Id, Id], ...]
    width: int
    height: int


def _is_shown(topic: str, moment: Moment) -> bool:
    """Topics of dead letters only if there are any."""
    return not topic.endswith(SUFFIX) or moment.topics[topic].records > 0


def lines_of(moment: Moment) -> list[tuple[Id, Id]]:
    """What goes from where to where."""
    topic_of = {name: source.topic for name, source in moment.sources.items()}
    found: list[tuple[Id, Id]] = []
    for query in moment.queries:
        own = Id(QUERY, query.name)
        found += [(Id(TOPIC, topic_of.get(name, name)), own) for name in query.sources]
        if not query.topic.startswith(INTERNAL):  # where alerts go is nobody's to open
            found.append((own, Id(TOPIC, query.topic)))
        if (dead := dead_letter_topic(query.topic)) in moment.topics and _is_shown(dead, moment):
            found.append((own, Id(TOPIC, dead)))
    found += [(Id(TOPIC, view["topic"]), Id(VIEW, view["name"])) for view in moment.views]
    return list(dict.fromkeys(found))


def picture(moment: Moment) -> Picture:
    lines = lines_of(moment)
    boxes = dict.fromkeys(
        [
            *(Id(TOPIC, name) for name in sorted(moment.topics) if _is_shown(name, moment)),
            *(id for line in lines for id in line),
        ]
    )
    columns = _columns(list(boxes), lines)
    places = {id: (column, row) for column, ids in enumerate(columns) for row, id in enumerate(ids)}
    tallest = max(map(len, columns), default=0)
    drawn = tuple(Box(id, *_corner(*place)) for id, place in places.items())
    return Picture(drawn, tuple(lines), *_corner(len(columns), tallest))


def _corner(column: int, row: int) -> tuple[int, int]:
    return column * (WIDTH + _GAP_X), row * (HEIGHT + _GAP_Y)


def _columns(boxes: list[Id], lines: list[tuple[Id, Id]]) -> list[list[Id]]:
    before: dict[Id, list[Id]] = {box: [] for box in boxes}
    after: dict[Id, list[Id]] = {box: [] for box in boxes}
    for start, end in lines:
        before[end].append(start)
        after[start].append(end)
    depths = _depths(boxes, before)
    columns: list[list[Id]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for box in boxes:
        columns[depths[box]].append(box)
    for _ in range(_SWEEPS):
        _settle(columns, before)
        _settle(columns[::-1], after)
    _settle(columns, before)
    return columns


def _depths(boxes: list[Id], before: dict[Id, list[Id]]) -> dict[Id, int]:
    """How many steps lie before each. Queries that feed each other are a circle: it is cut where it was entered."""
    depths: dict[Id, int] = {}
    under_way: set[Id] = set()

    def depth(box: Id) -> int:
        if box not in depths:
            under_way.add(box)
            depths[box] = max((depth(one) + 1 for one in before[box] if one not in under_way), default=0)
            under_way.discard(box)
        return depths[box]

    for box in boxes:
        depth(box)
    return depths


def _settle(columns: Iterable[list[Id]], beside: dict[Id, list[Id]]) -> None:
    """Order each column by where its neighbours stand, as far as they are placed already."""
    placed: dict[Id, float] = {}
    for column in columns:
        old = {box: float(row) for row, box in enumerate(column)}

        def height(box: Id, old: dict[Id, float] = old) -> float:
            rows = [placed[one] for one in beside[box] if one in placed]
            return sum(rows) / len(rows) if rows else old[box]

        column.sort(key=height)
        placed.update((box, float(row)) for row, box in enumerate(column))
