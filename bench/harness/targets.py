"""Targets as a line of text, and whether they are met.

rate >= 2 x kafka        our median is at least twice the median of the side "kafka"
p99_ms < 50              our median of the runs' 99th percentiles is below 50 ms
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.harness.case import OURS
from bench.harness.results import Run, spread
from headrace.errors import BadSetting

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TEXT = re.compile(r"(?P<metric>\w+) *(?P<compare>>=|<=|>|<) *(?P<value>[\d_.]+)( +x +(?P<peer>[\w-]+))?")


class State(StrEnum):
    OK = "ok"
    MISSED = "missed"
    FAILED = "failed"
    INFORMATION = "information"

    @property
    def is_good(self) -> bool:
        return self in (State.OK, State.INFORMATION)


@dataclass(frozen=True)
class Target:
    """A bound on a metric of ours, absolute or as a multiple of a peer's."""

    metric: str
    compare: str
    value: float
    peer: str | None = None

    def __str__(self) -> str:
        return f"{self.compare} {self.value:,.10g}" + (f" x {self.peer}" if self.peer else "")

    @classmethod
    def parse(cls, text: str) -> Target:
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise BadSetting(f'target "{text}" cannot be understood', fix='write "rate >= 2 x kafka" or "p99_ms < 50"')
        return cls(match["metric"], match["compare"], float(match["value"]), match["peer"])

    def is_met(self, ours: float, peer: float | None) -> bool:
        if self.peer is None:
            return COMPARE[self.compare](ours, self.value)
        return peer is not None and COMPARE[self.compare](ours, self.value * peer)


@dataclass(frozen=True)
class Verdict:
    """One line of the table: our median, a peer's, and whether the target is met."""

    case: str
    metric: str
    state: State
    ours: float | None
    peer_name: str | None = None
    peer: float | None = None
    target: str = ""
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.ours is not None and self.peer else None


def judge(
    case: str, sides: Sequence[str], runs: Sequence[Run], targets: Sequence[Target], also: Sequence[str] = ()
) -> list[Verdict]:
    """A verdict for each target; as information the metrics in `also`, and each peer that no target names."""
    peers = [name for name in sides if name != OURS]
    verdicts = [_verdict(case, target, peers, runs) for target in targets]
    verdicts += [_information(case, metric, next(iter(peers), None), runs) for metric in also]
    named = {verdict.peer_name for verdict in verdicts}
    metric = targets[0].metric if targets else "rate"
    verdicts += [_information(case, metric, peer, runs) for peer in peers if peer not in named]
    if not verdicts:
        verdicts.append(_information(case, metric, None, runs))
    return verdicts


def _verdict(case: str, target: Target, peers: Sequence[str], runs: Sequence[Run]) -> Verdict:
    peer_name = target.peer or next(iter(peers), None)
    ours, peer = _median(runs, OURS, target.metric), _median(runs, peer_name, target.metric)
    reason = _fault(runs, OURS) or _fault(runs, peer_name)
    if not reason and (ours is None or (target.peer and peer is None)):
        reason = f'no run gave the metric "{target.metric}"'
    met = ours is not None and not reason and target.is_met(ours, peer)
    state = State.FAILED if reason else State.OK if met else State.MISSED
    return Verdict(case, target.metric, state, ours, peer_name, peer, str(target), reason)


def _information(case: str, metric: str, peer_name: str | None, runs: Sequence[Run]) -> Verdict:
    reason = _fault(runs, OURS) or _fault(runs, peer_name)
    ours, peer = _median(runs, OURS, metric), _median(runs, peer_name, metric)
    state = State.FAILED if reason else State.INFORMATION
    return Verdict(case, metric, state, ours, peer_name, peer, "", reason)


def _median(runs: Sequence[Run], side: str | None, metric: str) -> float | None:
    values = spread(runs, side, metric) if side else None
    return values.median if values else None


def _fault(runs: Sequence[Run], side: str | None) -> str:
    return next((f"{run.side}: {run.error}" for run in runs if run.side == side and run.error), "")
