"""Alerts: active alerts, the history of notices and their deliveries, and muting. Statements create alerts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from headrace.control.alerts.history import can_see_notices, newest_notices
from headrace.control.statements.permissions import can_see_query
from headrace.control.status import query_status
from headrace.errors import UnknownAlert
from headrace.notifiers.contract import Notice
from headrace.plan.nodes import Query
from headrace.plan.types import identifier_text
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body, in_path, in_query
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route

_MAX_SCANNED = 20_000


@dataclass(frozen=True)
class ActiveAlert:
    """A key for which an alert is raised. Times are in ms."""

    key: str
    notice: str
    message: str
    value: float | None
    since: int
    at: int


@dataclass(frozen=True)
class Mute:
    """A muted alert. `until` is in ms; without a key, all keys are muted."""

    key: str | None
    until: int


@dataclass(frozen=True)
class AlertDescription:
    """An alert. `state` is the state of its query. `raised` and `raised_count` are filled in only for callers who may
    read all rows of the source; `raised` has at most the last 1,000 keys.
    """

    name: str
    source: str
    rule: str
    severity: str
    notify: list[str]
    query: str
    state: str
    text: str
    raised_count: int
    raised: list[ActiveAlert]
    mutes: list[Mute]


@dataclass(frozen=True)
class NoticeDelivery:
    """The delivery of a notice by one notifier. `state` is sent (with a reason if some recipients did not get it), dead
    (with the reason), muted, dropped, lost (removed before it was sent), open (not sent yet) or unknown (too long
    ago).
    """

    notifier: str
    state: str
    at: int | None = None
    attempts: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class NoticeEntry:
    """A notice, with its position in the history."""

    position: int
    id: str
    alert: str
    key: str
    state: str
    severity: str
    message: str
    value: float | None
    since: int
    at: int
    deliveries: list[NoticeDelivery]


@dataclass(frozen=True)
class NoticePage:
    """Notices, newest first. Pass `before` to get the preceding ones; it is null at the end."""

    notices: list[NoticeEntry]
    before: int | None


@dataclass(frozen=True, kw_only=True)
class AlertRequest:
    alert: str = in_path("The alert's name.")


@dataclass(frozen=True, kw_only=True)
class MuteRequest:
    alert: str = in_path("The alert's name.")
    seconds: int = in_body("For how long.")
    key: str | None = in_body("Only for this key, as notices show it.", None)


@dataclass(frozen=True, kw_only=True)
class UnmuteRequest:
    alert: str = in_path("The alert's name.")
    key: str | None = in_body("Only for this key; without it for all.", None)


@dataclass(frozen=True, kw_only=True)
class ListNoticesRequest:
    alert: str | None = in_query("Only those of an alert.", None)
    state: str | None = in_query("Only raised, cleared, or event (of EACH ROW).", None)
    key: str | None = in_query("Only those of a key.", None)
    before: int | None = in_query("Only notices before this position.", None)
    limit: int = in_query("Maximum number of notices to return.", 100, most=1_000)


# -- alerts ---------------------------------------------------------------------------------------------------------


def list_alerts(context: RequestContext) -> list[AlertDescription]:
    """List all alerts, with the keys for which they are raised."""
    alerts = sorted(context.node.catalog.alerts.items())
    return [_alert(context, query) for _, query in alerts if can_see_query(context.rights, query)]


def get_alert(context: RequestContext, params: AlertRequest) -> AlertDescription:
    """Get one alert."""
    return _alert(context, _query(context, params.alert))


def drop_alert(context: RequestContext, params: AlertRequest) -> None:
    """Drop an alert.

    Its notices stay in the history. Notices that have not been sent are dropped.
    """
    context.node.execute(f"DROP ALERT {_name(context, params.alert)};", rights=context.rights)


def mute_alert(context: RequestContext, params: MuteRequest) -> AlertDescription:
    """Mute an alert for some time. Its notices stay in the history."""
    context.node.execute(
        f"MUTE ALERT {_name(context, params.alert)}{_key(params.key)} FOR {params.seconds} SECONDS;",
        rights=context.rights,
    )
    return get_alert(context, AlertRequest(alert=params.alert))


def unmute_alert(context: RequestContext, params: UnmuteRequest) -> AlertDescription:
    """Unmute an alert, from the next notice on."""
    context.node.execute(f"UNMUTE ALERT {_name(context, params.alert)}{_key(params.key)};", rights=context.rights)
    return get_alert(context, AlertRequest(alert=params.alert))


def _alert(context: RequestContext, query: Query) -> AlertDescription:
    alert, status = query.alert, query_status(context.node, context.sampler, query.id)
    assert alert is not None
    raised = context.node.alerts.history.raised(query.id) if can_see_notices(context.rights, query) else []
    active_alerts = [
        ActiveAlert(one.target, one.id, one.message, one.value, one.since, one.at) for one in raised[-1_000:]
    ]
    mutes = [Mute(key, until) for key, until in context.node.alerts.mutes(alert.name).items()]
    facts = (alert.name, alert.source, str(alert.rule), alert.severity, list(alert.notify), query.id)
    return AlertDescription(*facts, status.state if status else "ended", query.text, len(raised), active_alerts, mutes)


def _query(context: RequestContext, alert: str) -> Query:
    query = context.node.catalog.alerts.get(alert)
    if query is None or not can_see_query(context.rights, query):
        raise UnknownAlert(f'alert "{alert}" does not exist', fix="GET /api/v1/alerts lists them")
    return query


def _name(context: RequestContext, alert: str) -> str:
    _query(context, alert)
    return identifier_text(alert)


def _key(key: str | None) -> str:
    return "" if key is None else " KEY '" + key.replace("'", "''") + "'"


# -- notices --------------------------------------------------------------------------------------------------------


def list_notices(context: RequestContext, params: ListNoticesRequest) -> NoticePage:
    """List the history of notices, newest first.

    It contains notices of alerts over sources of which the caller may read all rows. Continue with `before` until it is
    null; a page may be short or empty.
    """
    entries: list[NoticeEntry] = []
    visible_ids = {query.id for query in context.node.catalog.alerts.values() if can_see_notices(context.rights, query)}
    for scanned, (position, notice) in enumerate(newest_notices(context.log, params.before)):
        if len(entries) == params.limit or scanned == _MAX_SCANNED:
            return NoticePage(entries, position + 1)
        if _is_wanted(notice, params) and (context.rights.is_admin or notice.query in visible_ids):
            entries.append(_notice_entry(context, position, notice))
    return NoticePage(entries, None)


def _is_wanted(notice: Notice, params: ListNoticesRequest) -> bool:
    pairs = ((params.alert, notice.alert), (params.state, notice.state), (params.key, notice.target))
    return all(expected in (None, actual) for expected, actual in pairs)


def _notice_entry(context: RequestContext, position: int, notice: Notice) -> NoticeEntry:
    settled = {
        one.notifier: NoticeDelivery(one.notifier, one.state, one.at, one.tries, one.reason)
        for one in context.node.alerts.history.outcomes(notice.id)
    }
    deliveries = [
        settled.get(name) or NoticeDelivery(name, _unsettled(context, position, name)) for name in notice.notify
    ]
    facts = {name: value for name, value in asdict(notice).items() if name not in ("target", "query", "notify")}
    return NoticeEntry(position=position, key=notice.target, deliveries=deliveries, **facts)


def _unsettled(context: RequestContext, position: int, notifier: str) -> str:
    """The state without a stored outcome: old outcomes are discarded, but their completion stays recorded."""
    return "unknown" if context.node.alerts.history.is_done(position, notifier) else "open"


ROUTES = (
    Route("GET", "/alerts", list_alerts, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/alerts/{alert}", get_alert, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("DELETE", "/alerts/{alert}", drop_alert, 204, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("POST", "/alerts/{alert}/mute", mute_alert, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("POST", "/alerts/{alert}/unmute", unmute_alert, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("GET", "/notices", list_notices, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
)
