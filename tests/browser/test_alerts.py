"""An alert is created in a form, raised by records, and delivered by e-mail, by webhook and in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from bench.tables.serve_server import Server, until
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visitor, visiting
from tests.browser.test_charts import choose
from tests.notifier_receivers import MailReceiver, WebhookReceiver

NOTIFIERS = """
CREATE NOTIFIER pager TYPE WEBHOOK WITH (url='{url}', wait='0s');
CREATE NOTIFIER office TYPE EMAIL WITH (to='ops@example.com', wait='0s');
CREATE NOTIFIER browsers TYPE PUSH;
"""


@pytest.fixture(scope="module")
def told(live_server: Server, webhook: WebhookReceiver) -> Server:
    live_server.ksql(NOTIFIERS.format(url=webhook.url))
    return live_server


@pytest.fixture
def visitor(told: Server, chromium: Browser) -> Iterator[Visitor]:
    with visiting(chromium, told, permissions=["notifications"]) as one:
        one.open_login_link(told)
        yield one


def test_an_alert_is_created_raised_delivered_muted_and_dropped(
    visitor: Visitor, webhook: WebhookReceiver, office: MailReceiver
) -> None:
    page = visitor.visit("/alerts")
    page.get_by_label("Name", exact=True).fill("BUSY")
    choose(page, "Stream or table", "PAGE_VIEWS")
    page.get_by_label("Condition").fill("views > 3")
    page.get_by_label("Notify").click()
    for name in ("PAGER", "OFFICE"):
        page.get_by_role("option", name=name, exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_label("Active alerts")).to_contain_text("/cart")
    expect(page.get_by_label("Notification history")).to_contain_text(
        re.compile("OFFICE: sent, PAGER: sent|PAGER: sent, OFFICE")
    )
    until(lambda: bool(webhook.posted), "the webhook has it")
    until(lambda: any("raised /cart: BUSY" in mail for mail in office.mails), "the e-mail is there")
    message = json.loads(webhook.posted[0].body)
    assert message["alert"] == "BUSY"
    assert message["notices"][0]["state"] == "raised"
    visitor.check_accessible()
    visitor.picture("alerts")
    page.get_by_role("button", name="Mute BUSY", exact=True).click()
    expect(page.locator(".hr-entry")).to_contain_text("muted")
    page.get_by_role("button", name="Unmute BUSY").click()
    expect(page.locator(".hr-entry")).not_to_contain_text("muted")
    page.get_by_role("button", name="Drop BUSY").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(page.locator(".hr-entry")).to_have_count(0)


def test_an_invalid_alert_is_refused_with_its_reason(visitor: Visitor) -> None:
    page = visitor.visit("/alerts")
    page.get_by_label("Name", exact=True).fill("ODD")
    choose(page, "Stream or table", "PAGE_VIEWS")
    page.get_by_label("Condition").fill("nothing > 3")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator(".q-notification").first).to_contain_text(re.compile("nothing", re.IGNORECASE))


def test_a_browser_shows_a_push_message(visitor: Visitor) -> None:
    """The push service of a browser's maker is on the internet; from there on everything is real."""
    page = visitor.visit("/alerts")
    page.evaluate("navigator.serviceWorker.register('/ui/static/push.js')")
    registered = "navigator.serviceWorker.getRegistration('/ui/static/')"
    page.wait_for_function(f"async () => (await {registered})?.active?.state === 'activated'")
    session, seen = page.context.new_cdp_session(page), list[str]()
    session.on("ServiceWorker.workerRegistrationUpdated", lambda e: seen.extend(_ids(e["registrations"])))
    session.send("ServiceWorker.enable")
    until(lambda: page.wait_for_timeout(50) or bool(seen), "the worker is known")
    pushed = {"title": "BUSY raised: /cart", "body": "more than 3", "tag": "id-1", "severity": "warning"}
    for _ in range(2):  # a message may come twice
        data = {"origin": visitor.address, "registrationId": seen[0], "data": json.dumps(pushed)}
        session.send("ServiceWorker.deliverPushMessage", data)
    page.wait_for_function(f"async () => (await (await {registered}).getNotifications()).length > 0")
    shown = page.evaluate(
        f"async () => (await (await {registered}).getNotifications()).map(n => [n.title, n.body, n.tag])"
    )
    assert shown == [["BUSY raised: /cart", "more than 3", "id-1"]]


def _ids(registrations: list[dict[str, str]]) -> list[str]:
    return [one["registrationId"] for one in registrations if one["scopeURL"].endswith("/ui/static/")]


def test_a_failed_push_subscription_shows_its_reason(visitor: Visitor) -> None:
    """Here no push service can be reached: that is what must be said."""
    page = visitor.visit("/alerts")
    page.get_by_role("button", name="Get notifications of BROWSERS in this browser").click()
    expect(page.locator(".q-notification").first).to_contain_text("Could not subscribe")
    visitor.complaints.clear()  # Chromium explains that windows without a past have no push service
