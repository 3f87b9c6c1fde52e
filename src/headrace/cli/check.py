"""`headrace check`."""

from __future__ import annotations

import typer

from headrace.cli import output, scripts
from headrace.cli.call import Call

app = typer.Typer()


@app.command()
def check(ctx: typer.Context, file: scripts.Script, as_json: output.Json = False) -> None:
    """Find every error of a KSQL script before anything of it runs: its place, the line underlined, and a fix.

    What only follows from an error (a query over a stream that was refused) is counted, but not shown. RUN SCRIPT is
    followed. Exit code 1 if there are errors.

    Example: headrace check pageviews.ksql
    """
    call: Call = ctx.obj
    call.json |= as_json
    found = scripts.checked(file)
    if call.json:
        errors = [scripts.error_document(error) for error in found.errors]
        output.print_json({"statements": found.statements, "following": found.following, "errors": errors})
        raise typer.Exit(1 if errors else 0)
    scripts.refuse(found, as_json=False)
    output.note(scripts.summary(found))
