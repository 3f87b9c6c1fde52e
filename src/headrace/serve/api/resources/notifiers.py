"""Notifiers, test messages, and the browsers that subscribe to them. Statements create notifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.errors import BadRequest, NotAllowed
from headrace.notifiers.push_subscriptions import PushSubscription
from headrace.notifiers.web_push import check_subscription, public_key
from headrace.plan.notifiers import PUSH
from headrace.plan.types import identifier_text
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True)
class NotifierDescription:
    """A notifier. Secrets appear only as references."""

    name: str
    kind: str
    options: dict[str, Any]
    alerts: list[str]


@dataclass(frozen=True, kw_only=True)
class NotifierRequest:
    notifier: str = in_path("The notifier's name.")


@dataclass(frozen=True)
class PushKey:
    key: str


@dataclass(frozen=True)
class SubscribeResponse:
    id: str


@dataclass(frozen=True, kw_only=True)
class SubscribeRequest:
    notifier: str = in_path("The notifier's name.")
    endpoint: str = in_body("The push service's URL for the browser.")
    keys: dict[str, str] = in_body("Its keys: p256dh and auth.")


@dataclass(frozen=True, kw_only=True)
class SubscriptionRequest:
    notifier: str = in_path("The notifier's name.")
    subscription: str = in_path("The subscription's id.")


# -- notifiers ------------------------------------------------------------------------------------------------------


def list_notifiers(context: RequestContext) -> list[NotifierDescription]:
    """List all notifiers, with the alerts that use them."""
    catalog = context.node.catalog
    alerts = [query.alert for query in catalog.alerts.values() if query.alert is not None]
    return [
        NotifierDescription(name, one.kind, dict(one.options), sorted(a.name for a in alerts if name in a.notify))
        for name, one in sorted(catalog.notifiers.items())
    ]


def send_test_message(context: RequestContext, params: NotifierRequest) -> None:
    """Send a test message now, once. A failure is reported."""
    context.node.alerts.send_test_message(params.notifier)


def drop_notifier(context: RequestContext, params: NotifierRequest) -> None:
    """Drop a notifier. Refused while alerts use it."""
    context.node.execute(
        f"DROP NOTIFIER {identifier_text(context.node.alerts.notifier(params.notifier).name)};", rights=context.rights
    )


# -- web push -------------------------------------------------------------------------------------------------------


def get_push_key(context: RequestContext) -> PushKey:
    """Get the `applicationServerKey` with which a browser subscribes."""
    return PushKey(public_key(context.node.alerts.sender_context))


def subscribe(context: RequestContext, params: SubscribeRequest) -> SubscribeResponse:
    """Subscribe a browser to a notifier of type PUSH.

    The fields are those of the browser's PushSubscription. The caller must be allowed to read all rows of the sources
    of its alerts.
    """
    notifier = context.node.alerts.notifier(params.notifier)
    if notifier.kind != PUSH.name:
        raise BadRequest(
            f'notifier "{notifier.name}" is not of type PUSH', fix="create one with CREATE NOTIFIER ... TYPE PUSH"
        )
    keys = params.keys.get("p256dh", ""), params.keys.get("auth", "")
    subscription = check_subscription(
        PushSubscription(notifier.name, params.endpoint, *keys, owner=context.rights.principal.name)
    )
    _check_sees_all(context, notifier.name)
    _check_owner(context, subscription.id)
    context.node.alerts.sender_context.subscriptions.add(subscription)
    return SubscribeResponse(subscription.id)


def unsubscribe(context: RequestContext, params: SubscriptionRequest) -> None:
    """Unsubscribe a browser.

    Users can remove their own subscriptions, admins any. A subscription that the browser has cancelled is removed
    automatically.
    """
    context.node.alerts.notifier(params.notifier)
    _check_owner(context, params.subscription)
    context.node.alerts.sender_context.subscriptions.remove(params.subscription)


def _check_sees_all(context: RequestContext, notifier: str) -> None:
    """Check the rights that are checked again at every delivery."""
    owner = context.rights.principal.name
    for query in context.node.catalog.alerts.values():
        if query.alert and notifier in query.alert.notify and not context.node.alerts.is_shown(owner, query.id):
            raise NotAllowed(
                f'{owner} may not read all rows that notifier "{notifier}" reports',
                fix="ask an admin for a role that may read all rows of the sources of its alerts",
            )


def _check_owner(context: RequestContext, subscription: str) -> None:
    existing = context.node.alerts.sender_context.subscriptions.get(subscription)
    if existing is not None and not context.rights.is_admin and existing.owner != context.rights.principal.name:
        raise NotAllowed(
            f"{context.rights.principal.name} does not own this subscription", fix="ask its owner or an admin"
        )


ROUTES = (
    Route("GET", "/notifiers", list_notifiers, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
    Route(
        "POST",
        "/notifiers/{notifier}/test",
        send_test_message,
        204,
        needs=AccessLevel.ADMIN,
        work=WorkClass.ADMINISTRATION,
    ),
    Route("DELETE", "/notifiers/{notifier}", drop_notifier, 204, needs=AccessLevel.ADMIN, work=WorkClass.STATEMENT),
    Route("GET", "/push-key", get_push_key, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route(
        "POST",
        "/notifiers/{notifier}/subscriptions",
        subscribe,
        201,
        needs=AccessLevel.KNOWN,
        work=WorkClass.ADMINISTRATION,
    ),
    Route(
        "DELETE",
        "/notifiers/{notifier}/subscriptions/{subscription}",
        unsubscribe,
        204,
        needs=AccessLevel.KNOWN,
        work=WorkClass.ADMINISTRATION,
    ),
)
