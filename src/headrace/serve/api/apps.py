"""Apps: Python code that a server executes, for its functions and operators, and the statements that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.apps import Deployed
from headrace.control.probing import probe
from headrace.errors import HeadraceError
from headrace.lang.python.loading import Code
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site
from headrace.serve.api.statements import Done, done_of


@dataclass(frozen=True)
class App:
    """`declares` are functions and operators that statements may call, `queries` those that do."""

    name: str
    declares: list[str]
    queries: list[str]


@dataclass(frozen=True)
class Source(App):
    path: str
    source: str


@dataclass(frozen=True)
class Sent(App):
    """`done` are statements of the app that were not done before."""

    done: list[Done]


@dataclass(frozen=True, kw_only=True)
class Ask:
    source: str = in_body("The text of a Python file that makes an app.")
    path: str = in_body("The name of the file: it stands in errors, and names an app that has no name.", "app.py")


@dataclass(frozen=True, kw_only=True)
class Named:
    app: str = in_path("The app's name.")


def list_apps(site: Site) -> list[App]:
    """All apps."""
    return [App(**_facts(site, deployed)) for deployed in list(site.node.apps.known.values())]


def get_app(site: Site, asked: Named) -> Source:
    """An app, with its code."""
    deployed = site.node.apps.get(asked.app)
    return Source(**_facts(site, deployed), path=deployed.code.path, source=deployed.code.source)


def send_app(site: Site, asked: Ask) -> Sent:
    """Have an app's code, and do its statements. Sent again, it replaces the code, and does only what is new."""
    done: list[Done] = []
    probe(code := Code(asked.source, asked.path))
    try:
        deployed = site.node.deploy(code, rights=site.rights, on_done=lambda outcome: done.append(done_of(outcome)))
    except HeadraceError as error:
        error.done = done  # type: ignore[attr-defined] - told with the refusal
        raise
    return Sent(**_facts(site, deployed), done=done)


def withdraw_app(site: Site, asked: Named) -> None:
    """Have an app's code no longer. What its statements made stays; none of it may call the code."""
    site.node.withdraw(asked.app, rights=site.rights)


def _facts(site: Site, deployed: Deployed) -> dict[str, Any]:
    queries = [enlisted.query for enlisted in list(site.node.supervisor.queries.values())]
    users = site.node.apps.users(deployed.name, queries)
    return {"name": deployed.name, "declares": sorted(deployed.declares), "queries": users}


ROUTES = (
    Route("GET", "/apps", list_apps, needs=Be.ADMIN),
    Route("GET", "/apps/{app}", get_app, needs=Be.ADMIN),
    Route("POST", "/apps", send_app, is_code=True, needs=Be.ADMIN),
    Route("DELETE", "/apps/{app}", withdraw_app, 204, is_code=True, needs=Be.ADMIN),
)
