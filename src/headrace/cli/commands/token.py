"""`headrace token`: create and revoke tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import output
from headrace.cli.params.access import LOCAL_PRINCIPAL, open_users
from headrace.cli.params.values import duration_option

app = typer.Typer(no_args_is_help=True)


@app.command()
def create(
    ctx: typer.Context,
    user: Annotated[str, typer.Argument(help="The user's name.")],
    life: Annotated[timedelta | None, duration_option("Lifetime. Default: the setting auth.token_ttl.")] = None,
    as_json: output.Json = False,
) -> None:
    """Create a token for a user, and print it.

    It authenticates its bearer as that user until it expires or is revoked.

    Example: headrace token create shop --life 30d > shop.token
    """
    from headrace.access.tokens import Tokens
    from headrace.access.users import unknown_user

    call: CommandContext = ctx.obj
    call.json |= as_json
    settings = call.settings()
    with open_users(call) as book:
        account = book.state.users.get(user)
        if account is None:
            raise unknown_user(user, book.state)
        token, mark, ends_at = Tokens(settings).make(user, account.generation, life or settings.auth.token_ttl)
        book.audit.note("token-made", LOCAL_PRINCIPAL, user=user, token=mark)
    if call.json:
        output.print_json({"token": token, "id": mark, "expires_at": ends_at})
    else:
        print(token)
        output.note(f"token id {mark}; expires at {output.time_text(int(1000 * ends_at))}")


@app.command()
def revoke(
    ctx: typer.Context,
    token: Annotated[str | None, typer.Argument(metavar="ID", help="Token id.", show_default=False)] = None,
    user: Annotated[
        str | None, typer.Option(help="Revoke all tokens and sessions of this user.", show_default=False)
    ] = None,
) -> None:
    """Revoke a token, or all tokens of a user.

    Example: headrace token revoke 3f2a9c5e

    Example: headrace token revoke --user shop
    """
    from headrace.access.tokens import latest_expiry

    if (token is None) == (user is None):
        raise typer.BadParameter("name a token id, or --user")
    with open_users(ctx.obj) as book:
        if user is not None:
            book.sign_out(user, by=LOCAL_PRINCIPAL)
        elif token is not None:
            book.revoke_token(token, latest_expiry(), by=LOCAL_PRINCIPAL)
    output.note("revoked")
