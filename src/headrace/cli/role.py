"""`headrace role`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.access.grants import Deed, Grant, Kind
from headrace.cli import output
from headrace.cli.call import Call
from headrace.cli.people import BY, book_of

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.")]
What = Annotated[str, typer.Argument(metavar="DEED", help=f"{', '.join(Deed)}.")]
Of = Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(Kind)}; a source is a stream or table.")]
Names = Annotated[str, typer.Argument(metavar="NAME", help="A name, how names begin and *, or * for all.")]
Where = Annotated[
    str | None, typer.Option(help="Only rows for which this condition holds; for: read source.", show_default=False)
]


@app.command("list")
def list_roles(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the roles with their grants.

    Example: headrace role list
    """
    call: Call = ctx.obj
    call.json |= as_json
    with book_of(call) as book:
        roles = sorted(book.state.roles.items())
    rows = [{"role": role, "grant": str(grant)} for role, grants in roles for grant in grants]
    output.listing(rows, as_json=call.json, columns=("role", "grant"), empty="there are no roles")


@app.command()
def grant(ctx: typer.Context, role: Name, deed: What, kind: Of, name: Names, where: Where = None) -> None:
    """Grant something to a role, which is there from its first grant on.

    Example: headrace role grant clerks write topic orders

    Example: headrace role grant europe read source ORDERS --where "REGION = 'EU'"
    """
    given = Grant.of(deed, kind, name, where)
    with book_of(ctx.obj, create=True) as book:
        book.grant(role, given, by=BY)
    output.note(f'role "{role}" may: {given}')


@app.command()
def revoke(ctx: typer.Context, role: Name, deed: What, kind: Of, name: Names, where: Where = None) -> None:
    """Take a grant back, written as it was granted.

    Example: headrace role revoke clerks write topic orders
    """
    given = Grant.of(deed, kind, name, where)
    with book_of(ctx.obj) as book:
        book.revoke(role, given, by=BY)
    output.note(f'role "{role}" may no longer: {given}')
