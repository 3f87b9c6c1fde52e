"""Alerts: which are raised, their notices and what became of them, muting; and the notifiers that send them.

Alerts and notifiers are made by statements.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headrace.control.condition import condition
from headrace.control.notices import newest, sees_notices
from headrace.control.permits import sees_query
from headrace.deliver.contract import Notice
from headrace.deliver.push import checked, public_key
from headrace.deliver.subscriptions import Subscription
from headrace.errors import BadRequest, NotAllowed, UnknownAlert
from headrace.plan.nodes import Query
from headrace.plan.notifiers import PUSH
from headrace.plan.types import identifier_text
from headrace.serve.api.parameters import in_body, in_path, in_query
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site

_MOST_LOOKED_AT = 20_000


@dataclass(frozen=True)
class Raised:
    """A key for which an alert is raised. Times are in ms."""

    key: str
    notice: str
    message: str
    value: float | None
    since: int
    at: int


@dataclass(frozen=True)
class Mute:
    """Until when, in ms; without a key all of them are muted."""

    key: str | None
    until: int


@dataclass(frozen=True)
class Alert:
    """`state` is that of its query. `raised`, and how many there are, is told to who may see all rows of the source; of
    many the last 1,000 are."""

    name: str
    source: str
    rule: str
    severity: str
    notify: list[str]
    query: str
    state: str
    text: str
    raised_count: int
    raised: list[Raised]
    mutes: list[Mute]


@dataclass(frozen=True)
class Delivery:
    """What a notifier did with a notice: sent (with a reason if not everybody has it), dead (with the reason), muted,
    dropped or lost (it was removed before it was sent); open while it has not, unknown if that is too long ago."""

    notifier: str
    state: str
    at: int | None = None
    tries: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Told:
    """A notice, with its place in the history."""

    place: int
    id: str
    alert: str
    key: str
    state: str
    severity: str
    message: str
    value: float | None
    since: int
    at: int
    deliveries: list[Delivery]


@dataclass(frozen=True)
class History:
    """The newest first; `before` gives those before them, and is null at the end."""

    notices: list[Told]
    before: int | None


@dataclass(frozen=True)
class Notifier:
    """Secrets stand here as references only."""

    name: str
    kind: str
    options: dict[str, Any]
    alerts: list[str]


@dataclass(frozen=True, kw_only=True)
class Named:
    alert: str = in_path("The alert's name.")


@dataclass(frozen=True, kw_only=True)
class Muting:
    alert: str = in_path("The alert's name.")
    seconds: int = in_body("For how long.")
    key: str | None = in_body("Only for this key, as notices show it.", None)


@dataclass(frozen=True, kw_only=True)
class Unmuting:
    alert: str = in_path("The alert's name.")
    key: str | None = in_body("Only for this key; without it for all.", None)


@dataclass(frozen=True, kw_only=True)
class Asked:
    alert: str | None = in_query("Only those of an alert.", None)
    state: str | None = in_query("Only raised, cleared, or event (of EACH ROW).", None)
    key: str | None = in_query("Only those of a key.", None)
    before: int | None = in_query("Only those before this place.", None)
    limit: int = in_query("At most so many.", 100, most=1_000)


@dataclass(frozen=True, kw_only=True)
class NamedNotifier:
    notifier: str = in_path("The notifier's name.")


@dataclass(frozen=True)
class PushKey:
    key: str


@dataclass(frozen=True)
class Subscribed:
    id: str


@dataclass(frozen=True, kw_only=True)
class Subscribing:
    notifier: str = in_path("The notifier's name.")
    endpoint: str = in_body("The push service's URL for the browser.")
    keys: dict[str, str] = in_body("Its keys: p256dh and auth.")


@dataclass(frozen=True, kw_only=True)
class NamedSubscription:
    notifier: str = in_path("The notifier's name.")
    subscription: str = in_path("The subscription's id.")


# -- alerts ---------------------------------------------------------------------------------------------------------


def list_alerts(site: Site) -> list[Alert]:
    """All alerts, with the keys for which they are raised."""
    alerts = sorted(site.node.catalog.alerts.items())
    return [_alert(site, query) for _, query in alerts if sees_query(site.rights, query)]


def get_alert(site: Site, asked: Named) -> Alert:
    """One alert."""
    return _alert(site, _query(site, asked.alert))


def drop_alert(site: Site, asked: Named) -> None:
    """End an alert for good. Its notices stay in the history; those that were not sent yet are not sent any more."""
    site.node.execute(f"DROP ALERT {_name(site, asked.alert)};", rights=site.rights)


def mute_alert(site: Site, asked: Muting) -> Alert:
    """Send no notices for a while. They stay in the history."""
    site.node.execute(
        f"MUTE ALERT {_name(site, asked.alert)}{_key(asked.key)} FOR {asked.seconds} SECONDS;", rights=site.rights
    )
    return get_alert(site, Named(alert=asked.alert))


def unmute_alert(site: Site, asked: Unmuting) -> Alert:
    """Send notices again, from the next one on."""
    site.node.execute(f"UNMUTE ALERT {_name(site, asked.alert)}{_key(asked.key)};", rights=site.rights)
    return get_alert(site, Named(alert=asked.alert))


def _alert(site: Site, query: Query) -> Alert:
    alert, found = query.alert, condition(site.node, site.watch, query.id)
    assert alert is not None
    raised = site.node.board.raised(query.id) if sees_notices(site.rights, query) else []
    shown = [Raised(one.target, one.id, one.message, one.value, one.since, one.at) for one in raised[-1_000:]]
    mutes = [Mute(key, until) for key, until in site.node.mutes(alert.name).items()]
    facts = (alert.name, alert.source, str(alert.rule), alert.severity, list(alert.notify), query.id)
    return Alert(*facts, found.state if found else "ended", query.text, len(raised), shown, mutes)


def _query(site: Site, alert: str) -> Query:
    found = site.node.catalog.alerts.get(alert)
    if found is None or not sees_query(site.rights, found):
        raise UnknownAlert(f'there is no alert "{alert}"', fix="GET /api/v1/alerts lists them")
    return found


def _name(site: Site, alert: str) -> str:
    _query(site, alert)
    return identifier_text(alert)


def _key(key: str | None) -> str:
    return "" if key is None else " KEY '" + key.replace("'", "''") + "'"


# -- notices --------------------------------------------------------------------------------------------------------


def list_notices(site: Site, asked: Asked) -> History:
    """The history, the newest first, of alerts whose source may be seen with all its rows. Go on with `before` until it
    is null; a page may be short, or empty."""
    found: list[Told] = []
    seen = {query.id for query in site.node.catalog.alerts.values() if sees_notices(site.rights, query)}
    for looked_at, (place, notice) in enumerate(newest(site.log, asked.before)):
        if len(found) == asked.limit or looked_at == _MOST_LOOKED_AT:
            return History(found, place + 1)
        if _is_wanted(notice, asked) and (site.rights.is_admin or notice.query in seen):
            found.append(_told(site, place, notice))
    return History(found, None)


def _is_wanted(notice: Notice, asked: Asked) -> bool:
    pairs = ((asked.alert, notice.alert), (asked.state, notice.state), (asked.key, notice.target))
    return all(wanted in (None, there) for wanted, there in pairs)


def _told(site: Site, place: int, notice: Notice) -> Told:
    settled = {
        one.notifier: Delivery(one.notifier, one.state, one.at, one.tries, one.reason)
        for one in site.node.board.outcomes(notice.id)
    }
    deliveries = [settled.get(name) or Delivery(name, _unsettled(site, place, name)) for name in notice.notify]
    facts = {name: value for name, value in asdict(notice).items() if name not in ("target", "query", "notify")}
    return Told(place=place, key=notice.target, deliveries=deliveries, **facts)


def _unsettled(site: Site, place: int, notifier: str) -> str:
    """Not all outcomes are remembered, but all are noted."""
    return "unknown" if site.node.board.is_done(place, notifier) else "open"


# -- notifiers ------------------------------------------------------------------------------------------------------


def list_notifiers(site: Site) -> list[Notifier]:
    """All notifiers, with the alerts that they send."""
    catalog = site.node.catalog
    alerts = [query.alert for query in catalog.alerts.values() if query.alert is not None]
    return [
        Notifier(name, one.kind, dict(one.options), sorted(a.name for a in alerts if name in a.notify))
        for name, one in sorted(catalog.notifiers.items())
    ]


def try_notifier(site: Site, asked: NamedNotifier) -> None:
    """Send a message that says that it is a test, now and once. What hinders it is told."""
    site.node.try_out(asked.notifier)


def drop_notifier(site: Site, asked: NamedNotifier) -> None:
    """Have a notifier no longer; refused while alerts are sent by it."""
    site.node.execute(f"DROP NOTIFIER {identifier_text(site.node.notifier(asked.notifier).name)};", rights=site.rights)


# -- web push -------------------------------------------------------------------------------------------------------


def get_push_key(site: Site) -> PushKey:
    """What a browser subscribes with: its `applicationServerKey`."""
    return PushKey(public_key(site.node.means))


def subscribe(site: Site, asked: Subscribing) -> Subscribed:
    """Tell a browser of what a notifier of type PUSH sends. The fields are those of its PushSubscription. Only for who
    may see all rows that its alerts look at."""
    notifier = site.node.notifier(asked.notifier)
    if notifier.kind != PUSH.name:
        raise BadRequest(f'notifier "{notifier.name}" is no PUSH', fix="CREATE NOTIFIER ... TYPE PUSH")
    keys = asked.keys.get("p256dh", ""), asked.keys.get("auth", "")
    subscription = checked(Subscription(notifier.name, asked.endpoint, *keys, owner=site.rights.who.name))
    _check_sees_all(site, notifier.name)
    _check_owner(site, subscription.id)
    site.node.means.subscriptions.add(subscription)
    return Subscribed(subscription.id)


def unsubscribe(site: Site, asked: NamedSubscription) -> None:
    """Tell a browser no longer, of oneself or, as an admin, of anybody; one that has ended its subscription is
    forgotten by itself."""
    site.node.notifier(asked.notifier)
    _check_owner(site, asked.subscription)
    site.node.means.subscriptions.remove(asked.subscription)


def _check_sees_all(site: Site, notifier: str) -> None:
    """By the rights that are asked for again whenever something is sent."""
    owner = site.rights.who.name
    for query in site.node.catalog.alerts.values():
        if query.alert and notifier in query.alert.notify and not site.node.is_shown(owner, query.id):
            raise NotAllowed(
                f'{owner} may not see all that notifier "{notifier}" tells of',
                fix="ask an admin for a role of yours that may read all rows of its alerts' sources",
            )


def _check_owner(site: Site, subscription: str) -> None:
    found = site.node.means.subscriptions.get(subscription)
    if found is not None and not site.rights.is_admin and found.owner != site.rights.who.name:
        raise NotAllowed(f"{site.rights.who.name} has not subscribed this browser", fix="whoever did, or an admin, may")


ROUTES = (
    Route("GET", "/alerts", list_alerts, needs=Be.KNOWN),
    Route("GET", "/alerts/{alert}", get_alert, needs=Be.KNOWN),
    Route("DELETE", "/alerts/{alert}", drop_alert, 204, needs=Be.KNOWN),
    Route("POST", "/alerts/{alert}/mute", mute_alert, needs=Be.KNOWN),
    Route("POST", "/alerts/{alert}/unmute", unmute_alert, needs=Be.KNOWN),
    Route("GET", "/notices", list_notices, needs=Be.KNOWN),
    Route("GET", "/notifiers", list_notifiers, needs=Be.ADMIN),
    Route("POST", "/notifiers/{notifier}/test", try_notifier, 204, needs=Be.ADMIN),
    Route("DELETE", "/notifiers/{notifier}", drop_notifier, 204, needs=Be.ADMIN),
    Route("GET", "/push-key", get_push_key, needs=Be.KNOWN),
    Route("POST", "/notifiers/{notifier}/subscriptions", subscribe, 201, needs=Be.KNOWN),
    Route("DELETE", "/notifiers/{notifier}/subscriptions/{subscription}", unsubscribe, 204, needs=Be.KNOWN),
)
