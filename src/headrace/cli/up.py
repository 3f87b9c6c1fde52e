"""`headrace up`."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.settings import Settings


def up(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is a free one.")] = 8088,
    host: Annotated[str | None, typer.Option(help="The address to listen on; else that of the settings.")] = None,
) -> None:
    """Serve: statements come over HTTP, with the interface that ksqlDB's clients know, and their queries run on.

    What was created is there again after a restart. Ctrl-C, or `headrace down`, lets the batches under way end; SIGHUP
    reads the settings again. It listens on this machine only; any other address needs TLS, `auth = "required"` and an
    admin.

    Example: headrace up --port 8088

    Example: headrace up --host 0.0.0.0
    """
    from headrace.serve import require_libraries

    require_libraries()
    from headrace.control.node import Node
    from headrace.control.presence import announced
    from headrace.serve.application import application
    from headrace.serve.binding import check_bind, tls_of
    from headrace.serve.connections import Crowd
    from headrace.serve.server import Server

    call: Call = ctx.obj
    call.flags["host"] = host
    settings = call.settings()
    tls = tls_of(settings)
    with call.log(create=True, long=True) as log, Node(log, settings) as node:
        check_bind(settings, has_admin=node.guard.book.state.has_admin)
        crowd = Crowd(settings.connections, settings.connections_each)
        server = Server(application(node, dashboard=True), settings.host, port, crowd=crowd, tls=tls)
        server.stop_on_signals()
        _reload_on_signal(call, settings, node)
        output.note(f"headrace listens on {server.address}; Ctrl-C ends it")
        output.note(f"its dashboard: {server.address}/ui/")
        with announced(settings.data, server.address):
            server.run()


def _reload_on_signal(call: Call, settings: Settings, node: Node) -> None:
    """In a thread of its own: what is interrupted may be writing to the log file."""
    from headrace.control.reloading import reload

    turn, known = threading.Lock(), [settings]

    def again() -> None:
        with turn:
            known[0] = reload(known[0], call.settings)
            node.reload(known[0])

    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=again, name="headrace-reload").start())
