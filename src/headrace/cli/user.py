"""`headrace user`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.call import Call
from headrace.cli.people import BY, Role, book_of, password

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def add(
    ctx: typer.Context,
    name: Name,
    role: Role = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Only tokens count, for a program say.")] = False,
) -> None:
    """Add a user. The password is asked for, or read from standard input.

    Example: headrace user add alice --role admin

    Example: headrace user add shop --role writer --no-password
    """
    given = None if no_password else password()
    with book_of(ctx.obj, create=True) as book:
        book.add_user(name, given, role or (), by=BY)
    output.note(f'user "{name}" is added')


@app.command("list")
def list_users(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the users.

    Example: headrace user list
    """
    call: Call = ctx.obj
    call.json |= as_json
    with book_of(call) as book:
        users = sorted(book.state.users.values(), key=lambda user: user.name)
    rows = [{"name": u.name, "roles": sorted(u.roles), "password": u.password is not None} for u in users]
    shown = rows if call.json else [{**row, "roles": ", ".join(row["roles"])} for row in rows]
    output.listing(shown, as_json=call.json, columns=("name", "roles", "password"), empty="there are no users")


@app.command()
def remove(ctx: typer.Context, name: Name) -> None:
    """Remove a user. Tokens and sessions count no longer.

    Example: headrace user remove alice
    """
    with book_of(ctx.obj) as book:
        book.remove_user(name, by=BY)
    output.note(f'user "{name}" is removed')


@app.command("password")
def change_password(ctx: typer.Context, name: Name) -> None:
    """Give a user another password. Tokens and sessions of before count no longer.

    Example: headrace user password alice
    """
    given = password()
    with book_of(ctx.obj) as book:
        book.set_password(name, given, by=BY)
    output.note(f'user "{name}" has another password')


@app.command()
def roles(ctx: typer.Context, name: Name, role: Role = None) -> None:
    """Give a user other roles, in place of all before; none without --role.

    Example: headrace user roles alice --role reader --role clerks
    """
    with book_of(ctx.obj) as book:
        book.set_roles(name, role or (), by=BY)
    output.note(f'user "{name}" has roles: {", ".join(role or ()) or "none"}')
