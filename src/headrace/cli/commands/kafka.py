"""`headrace kafka`: Kafka brokers on this machine, and the jars that they and Spark need."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.log.kafka import jars as jar_sets
from headrace.log.kafka.local_cluster import LocalCluster

app = typer.Typer(help="Run Kafka brokers on this machine, for development.", no_args_is_help=True)

_Folder = Annotated[Path | None, typer.Option(help="Folder of the brokers' data. Default: kafka in the data folder.")]


@app.command()
def up(
    ctx: typer.Context,
    nodes: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers. With 3, everything is replicated.")] = 1,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the first broker; the others use the ports after it.")
    ] = 9092,
    folder: _Folder = None,
) -> None:
    """Run Kafka brokers on 127.0.0.1 until Ctrl-C.

    Their data is kept for the next start.

    Example: headrace kafka up --nodes 3 --port 9092
    """
    call: CommandContext = ctx.obj
    settings = call.settings()
    jar_sets.fetch(settings, output.note)
    place = (folder or settings.storage.data / "kafka").absolute()
    with output.stderr_console().status(f"starting {nodes} Kafka broker{'s' if nodes > 1 else ''} ..."):
        cluster = LocalCluster.start(place, nodes, range(port, port + nodes), settings)
    with cluster:
        _print_address(cluster, place)
        _wait_for_signal()
        output.note("stopping ...")


@app.command()
def jars(
    ctx: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success.")] = False,
) -> None:
    """Download the Kafka jars with Maven.

    These are the jars of the broker and of Spark's Kafka connector. They are downloaded once.

    Example: headrace kafka jars
    """
    call: CommandContext = ctx.obj
    folders = jar_sets.fetch(call.settings(), None if quiet else output.note)
    if not quiet:
        for folder in folders:
            output.stdout_console().print(f"[green]ready[/green] {folder}")


def _print_address(cluster: LocalCluster, place: Path) -> None:
    console = output.stdout_console()
    console.print(f"Kafka is running at [bold]{cluster.bootstrap}[/bold]; its data is in {place}")
    console.print(f"  use it:  headrace --log kafka --servers {cluster.bootstrap} topic list")
    console.print("  stop it: Ctrl-C")
    console.file.flush()


def _wait_for_signal() -> None:
    stopped = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stopped.set())
    stopped.wait()
