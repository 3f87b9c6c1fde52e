"""The lock files: packages pinned to versions, and to the hashes of their files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "requirements-build.lock"  # what builds the packages that come as source
RUNTIME = ROOT / "requirements.lock"  # the product with all its extras
DEVELOPMENT = ROOT / "requirements-dev.lock"  # both of them, and what only tests and tools need


@dataclass(frozen=True)
class Pin:
    version: str
    marker: Marker | None
    hashes: frozenset[str]

    @property
    def is_for_this_platform(self) -> bool:
        return self.marker is None or self.marker.evaluate()


def read_lock(path: Path) -> Mapping[str, Pin]:
    """The pins by normalized name. A line that is not a pin with hashes is an error."""
    pins: dict[str, Pin] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        pin = Requirement(requirement)
        versions = [each.version for each in pin.specifier if each.operator == "=="]
        if len(versions) != 1 or not hashes or pin.name in pins:
            raise ValueError(f'{path.name}: "{requirement}" is not a single pin with hashes')
        pins[pin.name] = Pin(versions[0], pin.marker, frozenset(hashes))
    return pins
