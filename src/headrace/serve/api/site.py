"""What the functions of routes share: the node, and what a server keeps while it runs."""

from __future__ import annotations

from headrace.contracts import Log
from headrace.control.node import Node
from headrace.control.status import Watch
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

    @property
    def log(self) -> Log:
        return self.node.log
