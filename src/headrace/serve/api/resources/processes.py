"""Processes: the pull and push queries that are running now, and ending them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.serving.processes import Process
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True, kw_only=True)
class ProcessRequest:
    process: int = in_path("The id of the process.")


@dataclass(frozen=True)
class ProcessStatus:
    """A running pull or push query. `rows` and `bytes` are those of its result so far, `started_at` is in ms."""

    id: int
    kind: str
    principal: str
    text: str
    started_at: int
    rows: int
    bytes: int
    worker: int | None


def list_processes(context: RequestContext) -> list[ProcessStatus]:
    """List the pull and push queries that are running: your own, or all of them for an admin."""
    return [_status(process) for process in context.node.processes.visible(context.rights)]


def kill_process(context: RequestContext, params: ProcessRequest) -> None:
    """End a running query. Its client gets the error `query-killed`."""
    context.node.processes.kill(params.process, context.rights)


def _status(process: Process) -> ProcessStatus:
    return ProcessStatus(
        process.id,
        process.kind,
        process.principal,
        process.text,
        process.started_at,
        process.rows,
        process.bytes,
        process.worker,
    )


ROUTES = (
    Route("GET", "/processes", list_processes, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
    Route("DELETE", "/processes/{process}", kill_process, 204, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
)
