"""`headrace user`: add, list, change and remove users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.access import LOCAL_PRINCIPAL, Role, open_users, parse_quota, prompt_password
from headrace.settings import declared_settings

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
def quota(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The user's name, anonymous, or ISSUER|SUBJECT.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUOTA=VALUE]...", help="A quota of the section [quota]; 0 is no limit."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the user's own quotas first.")] = False,
    as_json: output.Json = False,
) -> None:
    """Show or set the quotas of one user.

    A quota that is not set for the user is that of the settings. A running server applies a change within a second.

    Example: headrace user quota shop

    Example: headrace user quota shop requests_per_second=50 queries=4

    Example: headrace user quota shop --remove
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    given = dict(map(parse_quota, values or ()))
    from headrace.access.users import unknown_user

    with open_users(call) as book:
        own = {} if remove else book.state.quotas.get(name, {})
        if given or remove:
            book.set_quota(name, {**own, **given}, by=LOCAL_PRINCIPAL)
        elif name in book.state.users or name in book.state.quotas:
            _print_quotas(call, own)
        else:
            raise unknown_user(name, book.state)
    if given or remove:
        output.note(
            f'quotas of user "{name}": {", ".join(f"{key}={value}" for key, value in {**own, **given}.items())}'
        )


def _print_quotas(call: CommandContext, own: Mapping[str, int]) -> None:
    specs = [spec for spec in declared_settings() if spec.section == "quota"]
    rows = [
        {
            "quota": spec.name,
            "value": int(own.get(spec.name, call.settings().value(spec))),
            "from": "user" if spec.name in own else "settings",
        }
        for spec in specs
    ]
    output.print_rows(rows, as_json=call.json, columns=("quota", "value", "from"), empty="")


@app.command()
def roles(ctx: typer.Context, name: Name, role: Role = None) -> None:
    """Replace all roles of a user.

    Without --role, the user has no roles.

    Example: headrace user roles alice --role reader --role clerks
    """
    with open_users(ctx.obj) as book:
        book.set_roles(name, role or (), by=LOCAL_PRINCIPAL)
    output.note(f'roles of user "{name}": {", ".join(role or ()) or "none"}')
