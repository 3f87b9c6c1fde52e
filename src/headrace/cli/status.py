"""`headrace status`."""

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

from headrace.cli import output
from headrace.cli.call import Call, check_folder
from headrace.cli.servers import TokenFile, token_of
from headrace.client import Shown, refused
from headrace.errors import NoServer, ServerUnreachable

if TYPE_CHECKING:
    from headrace.control.presence import Presence

_PATIENCE = 10.0  # seconds
_PATH = "/api/v1/status"


def status(ctx: typer.Context, token_file: TokenFile = None, as_json: output.Json = False) -> None:
    """How the server of this data folder and its queries are doing. Exit code 1 if none runs, or a query has failed.

    Example: headrace status

    Example: headrace status --json
    """
    from headrace.control.presence import present

    call: Call = ctx.obj
    call.json |= as_json
    data = call.settings().data
    check_folder(data)
    if (there := present(data)) is None:
        raise _nobody(data)
    told = {"pid": there.pid, "since": there.since, "address": there.address, **asked(call, there, token_file)}
    if call.json:
        output.print_json(told)
    else:
        _show(told)
    failed = any(query["state"] == "failed" for query in told["queries"]) or any(v["failure"] for v in told["views"])
    if told["broken"] or failed:
        raise typer.Exit(1)


def asked(call: Call, there: Presence, token_file: Path | None = None) -> dict[str, Any]:
    """What a server says of itself."""
    path = there.reached_at + _PATH
    shown = Shown(token_of(call, token_file), call.settings().ca or None)
    try:
        # The server is on this machine, whatever the environment says of proxies.
        direct = build_opener(ProxyHandler({}), HTTPSHandler(context=shown.context))
        with direct.open(Request(path, headers=shown.headers), timeout=_PATIENCE) as answer:
            return json.load(answer)
    except HTTPError as error:
        with error:
            raise refused(error.code, _told(error)) from error
    except (OSError, ValueError, HTTPException) as error:
        raise ServerUnreachable(
            f"the server (process {there.pid}) does not answer: {error}",
            where=path,
            fix="look at `headrace logs`; `headrace down` ends it",
        ) from error


def _told(error: HTTPError) -> Any:
    with suppress(ValueError):
        return json.loads(error.read())
    return None


def _nobody(data: Path) -> NoServer:
    used = "other processes use it" if _in_use(data) else "nobody uses it"
    return NoServer(f'no server runs on data folder "{data}"; {used}', fix="`headrace up` starts one")


def _in_use(data: Path) -> bool:
    """Whether some process has the embedded log open to write, a script of `headrace run` say."""
    from headrace.control.presence import holder

    return any(holder(path) is not None for path in (data / "owners").glob("*.lock"))


# -- what is shown --------------------------------------------------------------------------------------------------


def _show(told: Mapping[str, Any]) -> None:
    head = {name: str(told[name]) for name in ("address", "pid", "since", "version", "log", "data")}
    console = output.results()
    console.print(output.details(head))
    console.print()
    if told["queries"]:
        columns = ("query", "fills", "state", "way", "records_per_s", "lag", "batch_ms", "dead_letters")
        console.print(output.table([_row(query) for query in told["queries"]], columns))
    else:
        output.note("no query runs")
    if told["views"]:
        console.print()
        console.print(output.table(told["views"], ("name", "lag", "skipped", "rebuilt")))
    for query in told["queries"]:
        if query["failure"]:
            _failure(query)
    for view in told["views"]:
        if view["failure"]:
            _say(f"view {view['name']} is not kept: {view['failure']['what']}")
    for number, error in told["broken"].items():
        _say(f"statement {number} cannot be done any more: {error['what']}")


def _row(query: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: query[name] for name in ("state", "way", "lag", "batch_ms")}
    dead = sum(query["dead_letters"].values())
    return {
        "query": query["name"],
        "fills": query["sink"],
        **shown,
        "records_per_s": round(query["rate"]),
        "dead_letters": dead,
    }


def _failure(query: Mapping[str, Any]) -> None:
    failure, again = query["failure"], query["next_try_seconds"]
    following = "waits for RESUME or a restart" if again is None else f"is tried again in {again:.0f} s"
    text = (
        f"{query['name']} has failed {query['failures']} times, and {following}: {failure['code']}: {failure['what']}"
    )
    _say(text)
    if failure["fix"]:
        _say(f"  fix: {failure['fix']}")


def _say(text: str) -> None:
    output.errors().print(text, style="red", markup=False, soft_wrap=True)
