"""Apps: Python code that the server runs for its functions and operators, and the app's statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.statements.deployed_apps import DeployedApp
from headrace.errors import HeadraceError
from headrace.lang.python.app_code import AppCode
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.statements import ExecutedStatement, result_of
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True)
class AppSummary:
    """An app. `declares` are the functions and operators that statements may call; `queries` are those that do."""

    name: str
    declares: list[str]
    queries: list[str]


@dataclass(frozen=True)
class AppSource(AppSummary):
    path: str
    source: str


@dataclass(frozen=True)
class DeployResult(AppSummary):
    """A deployed app. `done` are the statements of the app that were executed now."""

    done: list[ExecutedStatement]


@dataclass(frozen=True, kw_only=True)
class DeployRequest:
    source: str = in_body("The text of a Python file that makes an app.")
    path: str = in_body("The name of the file: it stands in errors, and names an app that has no name.", "app.py")


@dataclass(frozen=True, kw_only=True)
class AppRequest:
    app: str = in_path("The app's name.")


def list_apps(context: RequestContext) -> list[AppSummary]:
    """List all apps."""
    return [AppSummary(**_facts(context, deployed)) for deployed in list(context.node.apps.deployed_apps.values())]


def get_app(context: RequestContext, params: AppRequest) -> AppSource:
    """Get an app, with its code."""
    deployed = context.node.apps.get(params.app)
    return AppSource(**_facts(context, deployed), path=deployed.code.path, source=deployed.code.source)


def deploy_app(context: RequestContext, params: DeployRequest) -> DeployResult:
    """Deploy an app, and execute its statements.

    Deploying again replaces the code, and executes only the statements that are new.
    """
    done: list[ExecutedStatement] = []
    try:
        deployed = context.node.deploy(
            AppCode(params.source, params.path),
            rights=context.rights,
            on_done=lambda outcome: done.append(result_of(outcome)),
        )
    except HeadraceError as error:
        error.done = done  # type: ignore[attr-defined] - reported with the error
        raise
    return DeployResult(**_facts(context, deployed), done=done)


def delete_app(context: RequestContext, params: AppRequest) -> None:
    """Delete an app's code.

    What its statements created stays. Refused while a query calls the code.
    """
    context.node.withdraw(params.app, rights=context.rights)


def _facts(context: RequestContext, deployed: DeployedApp) -> dict[str, Any]:
    queries = [registered.query for registered in list(context.node.supervisor.queries.values())]
    users = context.node.apps.dependent_queries(deployed.name, queries)
    return {"name": deployed.name, "declares": sorted(deployed.declares), "queries": users}


ROUTES = (
    Route("GET", "/apps", list_apps, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/apps/{app}", get_app, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route("POST", "/apps", deploy_app, is_code=True, needs=AccessLevel.ADMIN, work=WorkClass.STATEMENT),
    Route("DELETE", "/apps/{app}", delete_app, 204, is_code=True, needs=AccessLevel.ADMIN, work=WorkClass.STATEMENT),
)
