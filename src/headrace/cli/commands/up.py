"""`headrace up`: start the server."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.program_command import program_command
from headrace.errors import ProgramRunning

if TYPE_CHECKING:
    from headrace.control.node import Node
    from headrace.settings import Settings

_logger = logging.getLogger(__name__)


def up(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free port.")] = 8088,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: the setting server.host.")] = None,
) -> None:
    """Start the server.

    It runs queries, and serves the console and ksqlDB's REST API over HTTP. After a restart, queries resume where they
    stopped. Ctrl-C or `headrace down` stops the server after the batches in progress; SIGHUP reloads the settings.

    It prints a link that opens the console and logs the browser in, once, within 10 minutes; `headrace console` prints
    another one.

    The server listens on this machine only; any other address
    requires TLS, `auth.mode = "required"` and an admin.

    Example: headrace up --port 8088

    Example: headrace up --host 0.0.0.0
    """
    from headrace.serve import require_libraries

    require_libraries()
    from headrace.access.principal import LOCAL
    from headrace.control.admin.discovery import advertise
    from headrace.control.node import Node
    from headrace.control.serving.pull_workers import PullWorkers
    from headrace.serve.application import application
    from headrace.serve.browser_sessions import login_link
    from headrace.serve.http.bind import check_bind, tls_files
    from headrace.serve.http.connections import ConnectionLimits
    from headrace.serve.http.server import Server, dedicate_process

    call: CommandContext = ctx.obj
    call.flags["server_host"] = host
    settings = call.settings()
    tls = tls_files(settings)
    with (
        call.log(create=True, long=True) as log,
        closing(PullWorkers(settings)) as workers,
        _single_server(
            call, settings, partial(Node, log, settings, pull_workers=workers if workers.count else None)
        ) as node,
    ):
        workers.start()
        check_bind(settings, has_admin=node.guard.users.state.has_admin)
        limits = ConnectionLimits(
            settings.server.max_connections,
            settings.server.max_connections_per_address,
            settings.server.max_new_connections_per_address,
        )
        server = Server(
            application(node, dashboard=True),
            settings.server.host,
            port,
            limits=limits,
            tls=tls,
            trusted_proxies=settings.server.trusted_proxies,
        )
        server.stop_on_signals()
        _reload_on_signal(call, settings, node)
        output.note(f"headrace listens on {server.address}; Ctrl-C stops it")
        output.note(f"console: {server.address}/ui/")
        output.note(f"console, logged in, once: {server.address}{login_link(node.guard.links.create(LOCAL))}")
        _logger.info("server started at %s", server.address)
        node.warm_up()
        dedicate_process()
        with advertise(settings.storage.data, server.address):
            server.run()
        _logger.info("server stops")


def _single_server(call: CommandContext, settings: Settings, make: Callable[[], Node]) -> Node:
    """Make the node; if another server uses the data folder, say how to stop that one."""
    from headrace.control.admin.discovery import find_server

    try:
        return make()
    except ProgramRunning as error:
        running = find_server(settings.storage.data)
        at = f" at {running.address}" if running and running.address else ""
        pid = f" (process {running.pid})" if running else ""
        data_option = ["--data", str(call.flags["storage_data"])] if call.flags.get("storage_data") else []
        raise ProgramRunning(
            f'a server is already running on data folder "{settings.storage.data}"{at}{pid}',
            fix=f"use that server, or stop it: {program_command(*data_option, 'down')}",
        ) from error


def _reload_on_signal(call: CommandContext, settings: Settings, node: Node) -> None:
    """Reload the settings on SIGHUP, in a separate thread: the interrupted code may be writing to the log file."""
    from headrace.control.admin.settings_reload import reload_settings

    lock, current = threading.Lock(), [settings]

    def reload() -> None:
        with lock:
            current[0] = reload_settings(current[0], call.settings)
            node.reload(current[0])

    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, name="headrace-reload").start())
