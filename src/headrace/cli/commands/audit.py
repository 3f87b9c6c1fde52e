"""`headrace audit`: show and verify the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output

if TYPE_CHECKING:
    from headrace.access.audit import AuditEntry

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(
    ctx: typer.Context,
    last: Annotated[int, typer.Option(min=1, help="Number of entries; the newest are shown.")] = 100,
    user: Annotated[str | None, typer.Option(help="Show only entries of this user.", show_default=False)] = None,
    as_json: output.Json = False,
) -> None:
    """Show the audit log.

    It records log-ins, denials, statements, access changes and dead-letter replays, each with its user.

    Example: headrace audit show --last 20

    Example: headrace audit show --user alice --json
    """
    from collections import deque

    from headrace.access.audit import read_audit

    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        entries = deque((entry for entry in read_audit(log) if user in (None, entry.principal)), maxlen=last)
    if call.json:
        output.print_json([{**_row(entry), "details": dict(entry.details), "hash": entry.hash} for entry in entries])
        return
    output.print_rows(
        [{**_row(entry), "details": _details(entry)} for entry in entries],
        as_json=False,
        columns=("number", "at", "principal", "action", "details"),
        empty="the audit log is empty",
    )


def _row(entry: AuditEntry) -> dict[str, object]:
    return {
        "number": entry.number,
        "at": output.time_text(entry.at),
        "principal": entry.principal,
        "action": entry.action,
    }


def _details(entry: AuditEntry) -> str:
    return ", ".join(f"{name}: {value}" for name, value in entry.details.items())


@app.command()
def verify(
    ctx: typer.Context,
    known: Annotated[
        str | None, typer.Option(metavar="HASH", help="A hash from an earlier run; it must still be in the log.")
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Verify that no audit entry was changed, removed or inserted.

    Store the last hash outside the server, and pass it as --known the next time.

    Example: headrace audit verify
    """
    from headrace.access.audit import verify_audit

    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        verification = verify_audit(log, known)
    if call.json:
        output.print_json({"count": verification.count, "head": verification.head})
    else:
        print(verification.head)
        output.note(f"{verification.count} entries verified; the hash above is that of the last one")
