"""`headrace check`: report all errors of a KSQL script without running it."""

from __future__ import annotations

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params import script

app = typer.Typer()


@app.command()
def check(ctx: typer.Context, file: script.Script, as_json: output.Json = False) -> None:
    """Check a KSQL script without running it.

    Each error is shown with its location, the underlined line and a fix. Errors that only follow from another error
    (such as a query over a rejected stream) are counted but not shown. Scripts included with RUN SCRIPT are checked,
    too. The exit code is 1 if there are errors.

    Example: headrace check pageviews.ksql
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    checked = script.analyze_script(file)
    if call.json:
        errors = [script.error_document(error) for error in checked.errors]
        output.print_json({"statements": checked.statements, "following": checked.following, "errors": errors})
        raise typer.Exit(1 if errors else 0)
    script.exit_on_errors(checked, as_json=False)
    output.note(script.check_summary(checked))
