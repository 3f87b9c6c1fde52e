"""`headrace up`."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call


def up(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is a free one.")] = 8088,
) -> None:
    """Serve: statements come over HTTP, with the interface that ksqlDB's clients know, and their queries run on.

    What was created is there again after a restart. Ctrl-C lets the batches under way end. It listens on this machine
    only.

    Example: headrace up --port 8088
    """
    from headrace.serve import require_libraries

    require_libraries()
    from headrace.control.node import Node
    from headrace.serve.ksql.app import ksql_app
    from headrace.serve.server import Server

    call: Call = ctx.obj
    with call.log(create=True, long=True) as log, Node(log, call.settings()) as node:
        server = Server(ksql_app(node), "127.0.0.1", port)
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: server.stop())
        output.note(f"headrace listens on {server.address}; Ctrl-C ends it")
        server.run()
