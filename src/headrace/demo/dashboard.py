"""The demo's dashboard: charts over the clicks of the last minute, without the seconds that are still being counted."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.access.authorization import ALL_RIGHTS
from headrace.control.node import Node
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.dashboards import SaveDashboardRequest, save_dashboard

NAME = "clicks"
# A second is complete some seconds later: when the batch with its last click is committed and materialized.
LAST_MINUTE = "WINDOWSTART >= UNIX_TIMESTAMP() - 64000 AND WINDOWEND <= UNIX_TIMESTAMP() - 3000"
_VIEW = {"view": "PAGE_VIEWS", "where": LAST_MINUTE}
PANELS: tuple[Mapping[str, object], ...] = (
    {**_VIEW, "kind": "line", "title": "Clicks per second", "x": "WINDOWSTART", "y": "VIEWS", "by": "PAGE"},
    {**_VIEW, "kind": "top", "title": "Most visited pages, last minute", "x": "PAGE", "y": "VIEWS", "top": 5},
    {**_VIEW, "kind": "number", "title": "Clicks, last minute", "y": "VIEWS"},
    {**_VIEW, "kind": "histogram", "title": "Mean dwell per page and second", "x": "DWELL"},
)


def create_dashboard(node: Node) -> None:
    request = SaveDashboardRequest(
        dashboard=NAME, title="Clicks", panels=[dict(panel) for panel in PANELS], sharing="read"
    )
    save_dashboard(RequestContext(node).with_rights(ALL_RIGHTS), request)
