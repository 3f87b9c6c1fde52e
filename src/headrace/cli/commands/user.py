"""`headrace user`: add, list, change and remove users."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.access import LOCAL_PRINCIPAL, Role, open_users, prompt_password

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def add(
    ctx: typer.Context,
    name: Name,
    role: Role = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="No password: the user, such as a program, needs a token.")
    ] = False,
) -> None:
    """Add a user.

    The password is prompted for, or read from standard input.

    Example: headrace user add alice --role admin

    Example: headrace user add shop --role writer --no-password
    """
    password = None if no_password else prompt_password()
    with open_users(ctx.obj, create=True) as book:
        book.add_user(name, password, role or (), by=LOCAL_PRINCIPAL)
    output.note(f'user "{name}" added')


@app.command("list")
def list_users(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the users.

    Example: headrace user list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    with open_users(call) as book:
        users = sorted(book.state.users.values(), key=lambda user: user.name)
    rows = [{"name": u.name, "roles": sorted(u.roles), "password": u.password is not None} for u in users]
    printed_rows = rows if call.json else [{**row, "roles": ", ".join(row["roles"])} for row in rows]
    output.print_rows(
        printed_rows, as_json=call.json, columns=("name", "roles", "password"), empty="there are no users"
    )


@app.command()
def remove(ctx: typer.Context, name: Name) -> None:
    """Remove a user, with all tokens and sessions.

    Example: headrace user remove alice
    """
    with open_users(ctx.obj) as book:
        book.remove_user(name, by=LOCAL_PRINCIPAL)
    output.note(f'user "{name}" removed')


@app.command("password")
def change_password(ctx: typer.Context, name: Name) -> None:
    """Change a user's password.

    Existing tokens and sessions become invalid.

    Example: headrace user password alice
    """
    password = prompt_password()
    with open_users(ctx.obj) as book:
        book.set_password(name, password, by=LOCAL_PRINCIPAL)
    output.note(f'password of user "{name}" changed')


@app.command()
def roles(ctx: typer.Context, name: Name, role: Role = None) -> None:
    """Replace all roles of a user.

    Without --role, the user has no roles.

    Example: headrace user roles alice --role reader --role clerks
    """
    with open_users(ctx.obj) as book:
        book.set_roles(name, role or (), by=LOCAL_PRINCIPAL)
    output.note(f'roles of user "{name}": {", ".join(role or ()) or "none"}')
