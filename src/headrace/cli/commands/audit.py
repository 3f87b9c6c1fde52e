"""`headrace audit`: show and verify the audit log."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(
    ctx: typer.Context,
    last: Annotated[int, typer.Option(min=1, help="Number of entries; the newest are shown.")] = 100,
    who: Annotated[str | None, typer.Option(help="Show only entries of this user.", show_default=False)] = None,
    as_json: output.Json = False,
) -> None:
    """Show the audit log.

    It records log-ins, denials, statements, access changes and dead-letter replays, each with its user.

    Example: headrace audit show --last 20

    Example: headrace audit show --who alice --json
    """
    from collections import deque

    from headrace.access.audit import read_audit

    call: CommandContext = ctx.obj
    call.json |= as_json
    with call.log() as log:
        found = deque((one for one in read_audit(log) if who in (None, one.who)), maxlen=last)
    facts = [
        (one, {"number": one.number, "at": output.time_text(one.at), "who": one.who, "did": one.did}) for one in found
    ]
    if call.json:
        output.print_json([{**row, "facts": dict(one.facts), "hash": one.hash} for one, row in facts])
        return
    rows = [{**row, "facts": ", ".join(f"{name}: {fact}" for name, fact in one.facts.items())} for one, row in facts]
    output.print_rows(
        rows, as_json=False, columns=("number", "at", "who", "did", "facts"), empty="the audit log is empty"
    )


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
        found = verify_audit(log, known)
    if call.json:
        output.print_json({"count": found.count, "head": found.head})
    else:
        print(found.head)
        output.note(f"{found.count} entries verified; the hash above is that of the last one")
