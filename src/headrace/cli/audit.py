"""`headrace audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(
    ctx: typer.Context,
    last: Annotated[int, typer.Option(min=1, help="How many, the last ones.")] = 100,
    who: Annotated[str | None, typer.Option(help="Only what this one did.", show_default=False)] = None,
    as_json: output.Json = False,
) -> None:
    """What was done, by whom: log-ins, refusals, statements, changes of access, replays of dead letters.

    Example: headrace audit show --last 20

    Example: headrace audit show --who alice --json
    """
    from collections import deque

    from headrace.access.audit import entries

    call: Call = ctx.obj
    call.json |= as_json
    with call.log() as log:
        found = deque((one for one in entries(log) if who in (None, one.who)), maxlen=last)
    facts = [
        (one, {"number": one.number, "at": output.time_text(one.at), "who": one.who, "did": one.did}) for one in found
    ]
    if call.json:
        output.print_json([{**row, "facts": dict(one.facts), "hash": one.hash} for one, row in facts])
        return
    rows = [{**row, "facts": ", ".join(f"{name}: {fact}" for name, fact in one.facts.items())} for one, row in facts]
    output.listing(rows, as_json=False, columns=("number", "at", "who", "did", "facts"), empty="nothing was done")


@app.command()
def verify(
    ctx: typer.Context,
    known: Annotated[
        str | None, typer.Option(metavar="HASH", help="A hash that was noted before, and must be there.")
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Find an entry that was changed, removed or put in. Note the last hash elsewhere, and give it as --known later.

    Example: headrace audit verify
    """
    from headrace.access.audit import verified

    call: Call = ctx.obj
    call.json |= as_json
    with call.log() as log:
        found = verified(log, known)
    if call.json:
        output.print_json({"count": found.count, "head": found.head})
    else:
        print(found.head)
        output.note(f"{found.count} entries follow each other; this is the hash of the last one")
