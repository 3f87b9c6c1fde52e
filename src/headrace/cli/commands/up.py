"""`headrace up`: start the server."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.settings import Settings


def up(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is a free one.")] = 8088,
    host: Annotated[str | None, typer.Option(help="The address to listen on; else that of the settings.")] = None,
) -> None:
    """Start the server. It accepts statements over HTTP, with ksqlDB's REST API, and runs their queries.

    Everything that was created exists again after a restart. Ctrl-C or `headrace down` stops the server after the
    batches in progress; SIGHUP reloads the settings. The server listens on this machine only; any other address
    requires TLS, `auth.mode = "required"` and an admin.

    Example: headrace up --port 8088

    Example: headrace up --host 0.0.0.0
    """
    from headrace.serve import require_libraries

    require_libraries()
    from headrace.control.admin.discovery import advertise
    from headrace.control.node import Node
    from headrace.serve.application import application
    from headrace.serve.http.bind import check_bind, tls_files
    from headrace.serve.http.connections import ConnectionLimits
    from headrace.serve.http.server import Server

    call: CommandContext = ctx.obj
    call.flags["server_host"] = host
    settings = call.settings()
    tls = tls_files(settings)
    with call.log(create=True, long=True) as log, Node(log, settings) as node:
        check_bind(settings, has_admin=node.guard.book.state.has_admin)
        crowd = ConnectionLimits(settings.server.max_connections, settings.server.max_connections_per_address)
        server = Server(application(node, dashboard=True), settings.server.host, port, crowd=crowd, tls=tls)
        server.stop_on_signals()
        _reload_on_signal(call, settings, node)
        output.note(f"headrace listens on {server.address}; Ctrl-C ends it")
        output.note(f"its dashboard: {server.address}/ui/")
        with advertise(settings.storage.data, server.address):
            server.run()


def _reload_on_signal(call: CommandContext, settings: Settings, node: Node) -> None:
    """Reload the settings on SIGHUP, in a separate thread: the interrupted code may be writing to the log file."""
    from headrace.control.admin.settings_reload import reload_settings

    turn, known = threading.Lock(), [settings]

    def again() -> None:
        with turn:
            known[0] = reload_settings(known[0], call.settings)
            node.reload(known[0])

    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=again, name="headrace-reload").start())
