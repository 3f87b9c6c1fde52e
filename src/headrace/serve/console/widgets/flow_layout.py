"""Layout of the flow diagram: boxes for topics, the queries between them, and views at the end; lines between boxes.

A box is to the right of everything that it reads. Within a column, boxes are near the ones they are connected to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contracts import INTERNAL_PREFIX, dead_letter_topic
from headrace.serve.api.resources.dead_letters import SUFFIX
from headrace.serve.console.poller import ServerSnapshot

TOPIC, QUERY, VIEW = "topic", "query", "view"
WIDTH, HEIGHT = 190, 58
_GAP_X, _GAP_Y = 70, 22
_SWEEPS = 4


@dataclass(frozen=True)
class NodeId:
    kind: str
    name: str


@dataclass(frozen=True)
class NodeBox:
    id: NodeId
    x: int
    y: int


@dataclass(frozen=True)
class FlowGraph:
    boxes: tuple[NodeBox, ...]
    lines: tuple[tuple[NodeId, NodeId], ...]
    width: int
    height: int


def _is_shown(topic: str, moment: ServerSnapshot) -> bool:
    """Whether a topic is shown: a dead-letter topic only if it has records."""
    return not topic.endswith(SUFFIX) or moment.topics[topic].records > 0


def flow_edges(moment: ServerSnapshot) -> list[tuple[NodeId, NodeId]]:
    """The edges of the data flow."""
    topic_of = {name: source.topic for name, source in moment.sources.items()}
    edges: list[tuple[NodeId, NodeId]] = []
    for query in moment.queries:
        own = NodeId(QUERY, query.name)
        edges += [(NodeId(TOPIC, topic_of.get(name, name)), own) for name in query.sources]
        if not query.topic.startswith(INTERNAL_PREFIX):  # the topic of alerts has no page
            edges.append((own, NodeId(TOPIC, query.topic)))
        if (dead := dead_letter_topic(query.topic)) in moment.topics and _is_shown(dead, moment):
            edges.append((own, NodeId(TOPIC, dead)))
    edges += [(NodeId(TOPIC, view["topic"]), NodeId(VIEW, view["name"])) for view in moment.views]
    return list(dict.fromkeys(edges))


def layout_flow(moment: ServerSnapshot) -> FlowGraph:
    lines = flow_edges(moment)
    boxes = dict.fromkeys(
        [
            *(NodeId(TOPIC, name) for name in sorted(moment.topics) if _is_shown(name, moment)),
            *(id for line in lines for id in line),
        ]
    )
    columns = _columns(list(boxes), lines)
    places = {id: (column, row) for column, ids in enumerate(columns) for row, id in enumerate(ids)}
    tallest = max(map(len, columns), default=0)
    placed_boxes = tuple(NodeBox(id, *_corner(*place)) for id, place in places.items())
    return FlowGraph(placed_boxes, tuple(lines), *_corner(len(columns), tallest))


def _corner(column: int, row: int) -> tuple[int, int]:
    return column * (WIDTH + _GAP_X), row * (HEIGHT + _GAP_Y)


def _columns(boxes: list[NodeId], lines: list[tuple[NodeId, NodeId]]) -> list[list[NodeId]]:
    before: dict[NodeId, list[NodeId]] = {box: [] for box in boxes}
    after: dict[NodeId, list[NodeId]] = {box: [] for box in boxes}
    for start, end in lines:
        before[end].append(start)
        after[start].append(end)
    depths = _depths(boxes, before)
    columns: list[list[NodeId]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for box in boxes:
        columns[depths[box]].append(box)
    for _ in range(_SWEEPS):
        _settle(columns, before)
        _settle(columns[::-1], after)
    _settle(columns, before)
    return columns


def _depths(boxes: list[NodeId], before: dict[NodeId, list[NodeId]]) -> dict[NodeId, int]:
    """The depth of each box. A cycle of queries that feed each other is cut where it was entered."""
    depths: dict[NodeId, int] = {}
    under_way: set[NodeId] = set()

    def depth(box: NodeId) -> int:
        if box not in depths:
            under_way.add(box)
            depths[box] = max((depth(one) + 1 for one in before[box] if one not in under_way), default=0)
            under_way.discard(box)
        return depths[box]

    for box in boxes:
        depth(box)
    return depths


def _settle(columns: Iterable[list[NodeId]], beside: dict[NodeId, list[NodeId]]) -> None:
    """Order each column by the positions of neighbours that are already placed."""
    placed: dict[NodeId, float] = {}
    for column in columns:
        old = {box: float(row) for row, box in enumerate(column)}

        def height(box: NodeId, old: dict[NodeId, float] = old) -> float:
            rows = [placed[one] for one in beside[box] if one in placed]
            return sum(rows) / len(rows) if rows else old[box]

        column.sort(key=height)
        placed.update((box, float(row)) for row, box in enumerate(column))
