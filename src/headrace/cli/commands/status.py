"""`headrace status`: show the state of the server and its queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import typer

from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output
from headrace.cli.params.server import TokenFile, resolve_token
from headrace.client import Credentials, error_from
from headrace.errors import ServerNotRunning, ServerUnreachable

if TYPE_CHECKING:
    from headrace.control.admin.discovery import ServerInfo

_TIMEOUT = 10.0  # seconds that the server has to respond
_PATH = "/api/v1/status"


def status(ctx: typer.Context, token_file: TokenFile = None, as_json: output.Json = False) -> None:
    """Show the state of the server and its queries.

    The exit code is 1 if no server runs or a query has failed.

    Example: headrace status

    Example: headrace status --json
    """
    from headrace.control.admin.discovery import find_server

    call: CommandContext = ctx.obj
    call.json |= as_json
    data = call.settings().storage.data
    require_data_folder(data)
    if (server := find_server(data)) is None:
        raise _no_server(data)
    status = {
        "pid": server.pid,
        "since": server.since,
        "address": server.address,
        **fetch_status(call, server, token_file),
    }
    if call.json:
        output.print_json(status)
    else:
        _print(status)
    failed = any(query["state"] == "failed" for query in status["queries"]) or any(
        v["failure"] for v in status["views"]
    )
    if status["broken"] or failed:
        raise typer.Exit(1)


def fetch_status(call: CommandContext, server: ServerInfo, token_file: Path | None = None) -> dict[str, Any]:
    """Fetch the status document of a server."""
    path = server.required_address + _PATH
    token = resolve_token(call, server.required_address, token_file)
    credentials = Credentials(token, call.settings().client.ca_cert or None)
    try:
        # The server is on this machine: ignore proxies that the environment configures.
        direct = build_opener(ProxyHandler({}), HTTPSHandler(context=credentials.context))
        with direct.open(Request(path, headers=credentials.headers), timeout=_TIMEOUT) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            raise error_from(error.code, _error_document(error)) from error
    except (OSError, ValueError, HTTPException) as error:
        raise ServerUnreachable(
            f"the server (process {server.pid}) does not respond: {error}",
            where=path,
            fix="see `headrace logs`; `headrace down` stops the server",
        ) from error


def _error_document(error: HTTPError) -> Any:
    with suppress(ValueError):
        return json.loads(error.read())
    return None


def _no_server(data: Path) -> ServerNotRunning:
    suffix = "; another process uses the folder" if _in_use(data) else ""
    return ServerNotRunning(f'no server is running on data folder "{data}"{suffix}', fix="start one: headrace up")


def _in_use(data: Path) -> bool:
    """Whether a process has the embedded log open for writing, for example `headrace run`."""
    from headrace.control.admin.discovery import lock_holder

    return any(lock_holder(path) is not None for path in (data / "owners").glob("*.lock"))


# -- output ---------------------------------------------------------------------------------------------------------


def _print(status: Mapping[str, Any]) -> None:
    head = {name: str(status[name]) for name in ("address", "pid", "since", "version", "log", "data")}
    console = output.stdout_console()
    console.print(output.details(head))
    console.print()
    if status["queries"]:
        columns = ("query", "sink", "state", "execution_mode", "records_per_s", "lag", "batch_ms", "dead_letters")
        output.print_table(console, [_row(query) for query in status["queries"]], columns)
    else:
        output.note("there are no queries")
    if status["views"]:
        console.print()
        output.print_table(console, status["views"], ("name", "lag", "skipped", "rebuilt"))
    for query in status["queries"]:
        if query["failure"]:
            _failure(query)
    for view in status["views"]:
        if view["failure"]:
            _print_error(f"view {view['name']} is not materialized: {view['failure']['what']}")
    for wait in status["long_waits"]:
        _print_error(f'{wait["what"]}: "{wait["waiter"]}" has waited {wait["seconds"]} s for "{wait["holder"]}"')
    for number, error in status["broken"].items():
        _print_error(f"statement {number} of the journal can no longer be applied: {error['what']}")


def _row(query: Mapping[str, Any]) -> dict[str, Any]:
    copied = {name: query[name] for name in ("state", "execution_mode", "lag", "batch_ms")}
    dead = sum(query["dead_letters"].values())
    return {
        "query": query["name"],
        "sink": query["sink"],
        **copied,
        "records_per_s": round(query["rate"]),
        "dead_letters": dead,
    }


def _failure(query: Mapping[str, Any]) -> None:
    failure, restart_in = query["failure"], query["next_try_seconds"]
    next_step = "waits for RESUME or a restart" if restart_in is None else f"restarts in {restart_in:.0f} s"
    text = f"{query['name']} has failed ({query['failures']}x) and {next_step}: {failure['code']}: {failure['what']}"
    _print_error(text)
    if failure["fix"]:
        _print_error(f"  fix: {failure['fix']}")


def _print_error(text: str) -> None:
    output.stderr_console().print(text, style="red", markup=False, soft_wrap=True)
