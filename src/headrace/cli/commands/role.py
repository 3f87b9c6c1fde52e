"""`headrace role`: list roles, grant and revoke privileges."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.access.grants import Grant, Privilege, ResourceType
from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.access import LOCAL_PRINCIPAL, open_users

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.")]
ActionArgument = Annotated[str, typer.Argument(metavar="PRIVILEGE", help=f"One of: {', '.join(Privilege)}.")]
KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(ResourceType)}. A source is a stream or table.")
]
NamePattern = Annotated[
    str, typer.Argument(metavar="NAME", help="A name, a prefix with * (such as shop_*), or * for all.")
]
Where = Annotated[
    str | None, typer.Option(help="Row filter: a condition on the columns; only for: read source.", show_default=False)
]


@app.command("list")
def list_roles(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the roles with their grants.

    Example: headrace role list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with open_users(call) as users:
        roles = sorted(users.state.roles.items())
    rows = [{"role": role, "grant": str(grant)} for role, grants in roles for grant in grants]
    output.print_rows(rows, as_json=call.json, columns=("role", "grant"), empty="there are no roles")


@app.command()
def grant(
    ctx: typer.Context, role: Name, action: ActionArgument, kind: KindArgument, name: NamePattern, where: Where = None
) -> None:
    """Grant a privilege to a role.

    The first grant creates the role.

    Example: headrace role grant clerks write topic orders

    Example: headrace role grant eu read source ORDERS --where "AREA = 1"
    """
    privilege = Grant.of(action, kind, name, where)
    with open_users(ctx.obj, create=True) as users:
        users.grant(role, privilege, by=LOCAL_PRINCIPAL)
    output.note(f'granted to role "{role}": {privilege}')


@app.command()
def revoke(
    ctx: typer.Context, role: Name, action: ActionArgument, kind: KindArgument, name: NamePattern, where: Where = None
) -> None:
    """Revoke a privilege of a role.

    Write the grant exactly as it was granted; `headrace role list` shows it.

    Example: headrace role revoke clerks write topic orders
    """
    privilege = Grant.of(action, kind, name, where)
    with open_users(ctx.obj) as users:
        users.revoke(role, privilege, by=LOCAL_PRINCIPAL)
    output.note(f'revoked from role "{role}": {privilege}')
