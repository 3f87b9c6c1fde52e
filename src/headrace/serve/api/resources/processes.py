"""Processes: the pull and push queries that are running now, and ending them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.contract import ProcessStatus
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True, kw_only=True)
class ProcessRequest:
    process: int = in_path("The id of the process.")


def list_processes(context: RequestContext) -> list[ProcessStatus]:
    """List the pull and push queries that are running: your own, or all of them for an admin."""
    return context.node.processes.statuses(context.rights)


def kill_process(context: RequestContext, params: ProcessRequest) -> None:
    """End a running query. Its client gets the error `query-killed`."""
    context.node.processes.kill(str(params.process), context.rights)


ROUTES = (
    Route("GET", "/processes", list_processes, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
    Route("DELETE", "/processes/{process}", kill_process, 204, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
)
