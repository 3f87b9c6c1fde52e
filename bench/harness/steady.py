"""The steady rate of a side: from its first output to its last, independent of its start and its share.

A peer that is slow reads fewer records than the other sides, and the rate of its whole run would count its start more
heavily than theirs. Steady rates of runs of different lengths can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

METRIC = "steady_rate"
NOTE = "steady_rate: records per second between the first output of a side and its last; the start does not count."
_SHORTEST = 0.05  # seconds; a shorter run is not significant


@dataclass
class Outputs:
    """When a side wrote results, in seconds, and how many input records it had processed by then."""

    seen: list[tuple[float, int]] = field(default_factory=list)

    def note(self, seconds: float, records: int) -> None:
        """Adds an output if records were processed since the last one."""
        if records > (self.seen[-1][1] if self.seen else 0):
            self.seen.append((seconds, records))

    def metrics(self) -> dict[str, float]:
        if not self.seen:
            return {}
        (start, before), (end, after) = self.seen[0], self.seen[-1]
        return steady_rate(after - before, end - start)


def steady_rate(records: int, seconds: float) -> dict[str, float]:
    """The metric; empty if the outputs lie too close together, for example in a single batch."""
    return {METRIC: records / seconds} if seconds >= _SHORTEST else {}
