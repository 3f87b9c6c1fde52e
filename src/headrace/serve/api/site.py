"""What the functions of routes share: the node, what a server keeps while it runs, and who asks."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from typing import Any

from headrace.access.decision import NONE, Rights
from headrace.contracts import Bounds, Log
from headrace.control.node import Node
from headrace.control.status import Watch
from headrace.errors import UnknownTopic
from headrace.serve.api.fates import Fates
from headrace.serve.api.pages import Pages
from headrace.serve.api.producers import Producers
from headrace.serve.api.waking import Waking
from headrace.serve.bodies import Room

_HELD = 256 << 20  # bytes of bodies, of all requests under way


class Site:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.producers = Producers(node.log)
        self.fates = Fates(node.log)
        self.waking = Waking(node.log)
        self.pages = Pages(node.log)
        self.watch = Watch()
        self.room = Room(_HELD)
        self.rights = NONE

    def by(self, rights: Rights) -> Site:
        """The same, asked by somebody."""
        site = copy(self)
        site.rights = rights
        return site

    def note(self, did: str, **facts: Any) -> None:
        """In the audit, before it is done."""
        self.node.guard.audit.note(did, self.rights.who.name, **facts)

    @property
    def log(self) -> Log:
        return self.node.log

    def bounds(self) -> dict[str, dict[int, Bounds]]:
        """Of all topics."""
        found: dict[str, dict[int, Bounds]] = {}
        for topic in self.log.topics():
            with suppress(UnknownTopic):  # deleted a moment ago
                found[topic.name] = self.log.bounds(topic.name)
        return found
