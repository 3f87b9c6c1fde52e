"""`headrace topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.topic import topic_options
from headrace.contracts import Log, Topic, TopicSpec
from headrace.settings import Size

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The topic's name.")]


@app.command()
@topic_options
def create(ctx: typer.Context, name: Name, **options: Any) -> None:
    """Create a topic.

    Example: headrace topic create orders --schema "id bigint key, price double"
    """
    call: CommandContext = ctx.obj
    with call.log(create=True) as log:
        _say(call, log.create_topic(name, TopicSpec(**options)), "created")


@app.command("list")
def list_topics(
    ctx: typer.Context,
    as_json: output.Json = False,
) -> None:
    """List the topics.

    Example: headrace topic list --json
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        rows = [_summary(log, topic) for topic in log.topics()]
    columns = ("name", "partitions", "rows", "size", "schema", "created")
    output.print_rows(rows, as_json=call.json, columns=columns, empty="there are no topics")


@app.command()
def describe(ctx: typer.Context, name: Name, as_json: output.Json = False) -> None:
    """Show a topic's options and its partitions.

    Example: headrace topic describe orders
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        topic = log.topic(name)
        partitions = _partitions(log, topic)
    options = _options(topic)
    created = output.time_text(topic.created_at)
    if call.json:
        output.print_json({"name": name, "created": created, "options": options, "partitions": partitions})
        return
    console = output.stdout_console()
    console.print(output.details({"topic": name, "created": created, **options}))
    console.print()
    output.print_table(console, partitions, ["partition", "start", "end", "rows", "size"])


@app.command()
@topic_options
def alter(ctx: typer.Context, name: Name, **options: Any) -> None:
    """Change options of a topic.

    Options that are not given stay unchanged.

    Example: headrace topic alter orders --partitions 8 --retention-time 7d
    """
    call: CommandContext = ctx.obj
    if not options:
        raise typer.BadParameter("nothing to change: give at least one option")
    with call.log() as log:
        _say(call, log.alter_topic(name, **options), "altered")


@app.command()
def delete(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a topic with all its rows, after confirmation.

    Example: headrace topic delete orders --yes
    """
    call: CommandContext = ctx.obj
    with call.log() as log:
        log.topic(name)
        if not yes:
            typer.confirm(f'Delete topic "{name}" with all its rows?', abort=True, err=True)
        log.delete_topic(name)
    output.note(f'topic "{name}" deleted')


def _say(call: CommandContext, topic: Topic, how: str) -> None:
    if call.json:
        output.print_json({"name": topic.name, "options": _options(topic)})
    else:
        output.note(f'topic "{topic.name}" {how}')


def _options(topic: Topic) -> dict[str, Any]:
    values = {field.name: getattr(topic.spec, field.name) for field in dataclasses.fields(TopicSpec)}
    return {**values, "schema": "raw" if topic.schema.is_raw else str(topic.schema)}


def _summary(log: Log, topic: Topic) -> dict[str, Any]:
    partitions = _partitions(log, topic)
    rows, sizes = ([p[name] for p in partitions] for name in ("rows", "size"))
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "rows": None if None in rows else sum(rows),
        "size": None if None in sizes else Size(sum(sizes)),
        "schema": "raw" if topic.schema.is_raw else str(topic.schema),
        "created": output.time_text(topic.created_at),
    }


def _partitions(log: Log, topic: Topic) -> list[dict[str, Any]]:
    usage = _usage(log, topic)
    return [
        {
            "partition": partition,
            "start": bounds.start,
            "end": bounds.end,
            "rows": usage[partition][0] if usage else None,
            "size": usage[partition][1] if usage else None,
        }
        for partition, bounds in sorted(log.bounds(topic.name).items())
    ]


def _usage(log: Log, topic: Topic) -> dict[int, tuple[int, Size]]:
    """Rows and bytes of each partition; empty on Kafka, whose offsets also count transaction markers."""
    from headrace.log.embedded import EmbeddedLog
    from headrace.log.embedded.maintenance.stats import usage_by_partition

    return usage_by_partition(log, topic.name) if isinstance(log, EmbeddedLog) else {}
