"""The parts of an embedded log that maintenance works on."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from headrace.clock import Clock
from headrace.log.embedded.commit.committer import Committer
from headrace.log.embedded.storage.extent_reader import ExtentReader
from headrace.log.embedded.storage.extents import ExtentEncoder
from headrace.log.embedded.storage.store import Store
from headrace.log.embedded.storage.topic_catalog import TopicCatalog
from headrace.settings import Settings


class MaintainedLog(Protocol):
    folder: Path
    settings: Settings
    clock: Clock
    store: Store
    encoder: ExtentEncoder
    committer: Committer
    catalog: TopicCatalog
    reader: ExtentReader

    def groups(self) -> list[str]: ...
