"""`headrace queue`: take and acknowledge messages of a queue."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Annotated, Any

import orjson
import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.io.row_printer import bytes_text, log_columns
from headrace.cli.params.values import Visibility, duration_option
from headrace.contracts import Log
from headrace.errors import UnknownQueue, UnknownTopic
from headrace.formats.json.rows import JsonRows
from headrace.log.queues import Delivery, Queue

app = typer.Typer(no_args_is_help=True)
Topic = Annotated[str, typer.Argument(help="The topic's name.")]
Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
Receipts = Annotated[list[str], typer.Argument(metavar="RECEIPT", help="Receipts that `headrace queue take` printed.")]
_JOURNAL = "__queue."


@app.command()
def take(
    ctx: typer.Context,
    topic: Topic,
    queue: Name,
    limit: Annotated[int, typer.Option("--max", min=1, help="Number of messages, at most.")] = 1,
    visibility: Visibility = timedelta(seconds=30),
    wait: Annotated[timedelta, duration_option("How long to wait for a message.")] = timedelta(0),
    as_json: output.Json = False,
) -> None:
    """Take messages. No other worker gets them meanwhile.

    Messages that are not acknowledged in time are delivered again.

    Example: headrace queue take orders shipping --max 10 --visibility 5m
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        is_raw = log.topic(topic).schema.is_raw
        deliveries = Queue(log, topic, queue, visibility=visibility).take(limit, wait)
        rows = [_row(log, delivery, is_raw) for delivery in deliveries]
    columns = ("receipt", "deliveries", "expires", "value")
    printed_rows = rows if call.json else [{**row, "value": _value(row)} for row in rows]
    output.print_rows(printed_rows, as_json=call.json, columns=columns, empty="no messages")


@app.command()
def ack(ctx: typer.Context, topic: Topic, queue: Name, receipts: Receipts) -> None:
    """Acknowledge messages, so they are never delivered again.

    Example: headrace queue ack orders shipping RECEIPT
    """
    call: CommandContext = ctx.obj
    with call.log() as log:
        _existing(log, topic, queue).ack(*receipts)
    output.note(f"{len(receipts)} acknowledged")


@app.command()
def reject(
    ctx: typer.Context,
    topic: Topic,
    queue: Name,
    receipts: Receipts,
    dead: Annotated[
        bool, typer.Option("--dead", help="Move the messages to the dead-letter topic TOPIC.dead.")
    ] = False,
) -> None:
    """Reject messages, so they are delivered again.

    Example: headrace queue reject orders shipping RECEIPT --dead
    """
    call: CommandContext = ctx.obj
    with call.log() as log:
        _existing(log, topic, queue).reject(*receipts, requeue=not dead)
    output.note(f"{len(receipts)} rejected")


@app.command()
def stats(
    ctx: typer.Context,
    topic: Topic,
    queue: Name,
    as_json: output.Json = False,
) -> None:
    """Count the messages of a queue by state.

    States are ready, in flight, done, dead, and lost to retention.

    Example: headrace queue stats orders shipping
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        document = {"topic": topic, "queue": queue, **dataclasses.asdict(_existing(log, topic, queue).stats())}
    if call.json:
        output.print_json(document)
    else:
        output.stdout_console().print(output.details(document))


def _existing(log: Log, topic: str, queue: str) -> Queue:
    """The queue, which must exist: showing a queue must not create it."""
    log.topic(topic)
    try:
        log.topic(f"{_JOURNAL}{topic}.{queue}")
    except UnknownTopic:
        raise UnknownQueue(
            f'topic "{topic}" has no queue "{queue}"', fix=f"headrace queue take {topic} {queue} creates it"
        ) from None
    return Queue(log, topic, queue)


def _row(log: Log, delivery: Delivery, is_raw: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "receipt": delivery.receipt,
        "deliveries": delivery.deliveries,
        "expires": output.time_text(delivery.expires_at),
    }
    if is_raw:
        record = delivery.record
        row |= {"key": bytes_text(record.key), "value": bytes_text(record.value)}
    else:
        schema = log.topic(delivery.rows.topic).schema
        columns = delivery.rows.rows.select(list(schema.names))
        row["value"] = orjson.loads(JsonRows().encode(columns, schema)[0].as_py())
    return row | log_columns(delivery.rows)[0]


def _value(row: dict[str, Any]) -> Any:
    return orjson.dumps(row["value"]).decode() if isinstance(row["value"], dict) else row["value"]
