"""`headrace group`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.offset import To, resolve_offset
from headrace.contracts import Bounds, GroupInfo, Log, TopicPartition
from headrace.errors import UnknownGroup

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The group's name.")]


@app.command("list")
def list_groups(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the consumer groups.

    Example: headrace group list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        rows = [_summary(log.group(name)) for name in log.groups()]
    columns = ("name", "members", "partitions", "lag")
    output.print_rows(rows, as_json=call.json, columns=columns, empty="there are no consumer groups")


@app.command()
def describe(ctx: typer.Context, name: Name, as_json: output.Json = False) -> None:
    """Show a group's members, its committed offsets and its lag.

    Example: headrace group describe billing
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        info = log.group(name)
    offsets = _offsets(info)
    if call.json:
        members = [{"id": m.id, "client": m.client, "partitions": [str(p) for p in m.assignment]} for m in info.members]
        output.print_json({**_summary(info), "members": members, "offsets": offsets})
        return
    console = output.stdout_console()
    console.print(output.details({"group": name, "members": len(info.members), "lag": sum(info.lag.values())}))
    if offsets:
        console.print()
        output.print_table(console, offsets, ["topic", "partition", "offset", "lag", "member"])


@app.command()
def reset(
    ctx: typer.Context,
    name: Name,
    to: To,
    topic: Annotated[list[str] | None, typer.Option(help="Reset only this topic. Repeatable.")] = None,
) -> None:
    """Move a group's committed offsets. The group must have no live members.

    Example: headrace group reset billing --to -1h --topic orders
    """
    call: CommandContext = ctx.obj
    with call.log() as log:
        topics = topic or sorted({partition.topic for partition in log.group(name).offsets})
        bounds = _bounds(log, topics)
        if not bounds:
            raise UnknownGroup(f'group "{name}" has committed nothing yet', fix="name the topics with --topic")
        offsets = {partition: resolve_offset(log, partition, to, bounds[partition]) for partition in bounds}
        log.reset_group(name, offsets)
    rows = [{"topic": p.topic, "partition": p.partition, "offset": offset} for p, offset in offsets.items()]
    output.print_rows(rows, as_json=call.json, columns=("topic", "partition", "offset"), empty="")


@app.command()
def delete(ctx: typer.Context, name: Name) -> None:
    """Delete a group with its committed offsets. The group must have no live members.

    Example: headrace group delete billing
    """
    call: CommandContext = ctx.obj
    with call.log() as log:
        log.delete_group(name)
    output.note(f'consumer group "{name}" deleted')


def _summary(info: GroupInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "members": len(info.members),
        "partitions": len(info.offsets),
        "lag": sum(info.lag.values()),
    }


def _offsets(info: GroupInfo) -> list[dict[str, Any]]:
    owners = {partition: member.id for member in info.members for partition in member.assignment}
    return [
        {"topic": p.topic, "partition": p.partition, "offset": offset, "lag": info.lag[p], "member": owners.get(p)}
        for p, offset in sorted(info.offsets.items())
    ]


def _bounds(log: Log, topics: list[str]) -> dict[TopicPartition, Bounds]:
    return {TopicPartition(t, number): bounds for t in topics for number, bounds in sorted(log.bounds(t).items())}
