"""A real server, its console, and a real browser: Debian's Chromium, driven by Playwright.

The server and the browser live for the whole run. A page that has said something to its console, or asked somebody
else than the server, fails its test.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from bench.harness.browser import chromium as started
from bench.tables.serve_server import Server, server, until
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.notifier_receivers import MailReceiver, WebhookReceiver, mail_receiver, webhook_receiver

PATIENCE = 60_000
"""Milliseconds: Spark may have to begin a query."""
SETTINGS = {"spark_driver_memory": "512MB"}
STATEMENTS = """
CREATE STREAM clicks (visitor STRING KEY, page STRING, dwell DOUBLE)
  WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE TABLE page_views AS SELECT page, COUNT(*) AS views, SUM(dwell) AS dwell FROM clicks GROUP BY page;
"""
PAGES = ("/", "/search", "/cart")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.fixture(scope="session")
def webhook() -> Iterator[WebhookReceiver]:
    with webhook_receiver() as found:
        yield found


@pytest.fixture(scope="session")
def office() -> Iterator[MailReceiver]:
    """Where e-mails go."""
    with mail_receiver() as found:
        yield found


@pytest.fixture(scope="session")
def live_server(tmp_path_factory: pytest.TempPathFactory, office: MailReceiver) -> Iterator[Server]:
    """A server with a stream that somebody clicks on, a table over it, and a record that nobody can read."""
    told = {
        "notifiers_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
        "notifiers_webhook_allowed_private": "127.0.0.1",
    }
    with server(tmp_path_factory.mktemp("dashboard") / "data", **SETTINGS, **told) as running:
        running.ksql(STATEMENTS)
        running.post(
            "/api/v1/topics/clicks/records", [{"key": "x", "value": "<script>document.title='taken'</script>"}]
        )
        with clicking(running):
            until(lambda: bool(running.rows("SELECT * FROM page_views;")), "Spark has counted the first clicks")
            yield running


@contextmanager
def clicking(running: Server) -> Iterator[None]:
    ended = threading.Event()

    def click() -> None:
        number = 0
        while not ended.wait(0.2):
            number += 1
            rows = [{"VISITOR": f"v{number}", "PAGE": PAGES[(number + i) % 3], "DWELL": float(i)} for i in range(5)]
            running.text("/inserts-stream", "\n".join(map(json.dumps, [{"target": "CLICKS"}, *rows])))

    thread = threading.Thread(target=click)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    expect.set_options(PATIENCE)
    with started() as browser:
        yield browser


_WITHOUT_STYLES = {"preload": False}
"""Axe copies style sheets for one of its rules, which the page's policy does not allow."""
_NOTIFICATIONS = "[...document.querySelectorAll('.q-notifications *')].map((one) => one.getAttribute('class')).join()"


@dataclass
class Visitor:
    """Somebody with a browser window."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def visit(self, path: str) -> Page:
        self.page.goto(f"{self.address}/ui{path}")
        self.page.wait_for_selector("main h1")
        return self.page

    def open_login_link(self, server: Server) -> None:
        """Log in as the operator."""
        self.page.goto(f"{self.address}{server.post('/api/v1/session/links', {})['path']}")
        self.page.wait_for_url(f"{self.address}/ui/")

    def note(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    def check_origin(self, asked: Request) -> None:
        """A page asks its own server only."""
        own = (self.address, self.address.replace("http", "ws"), "data:", "blob:")
        if not asked.url.startswith(own):
            self.complaints.append(f"asked elsewhere: {asked.url}")

    def picture(self, name: str) -> None:
        """For the docs, if they are to be made anew."""
        if os.environ.get("HEADRACE_PICTURES"):
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{name}.png")

    def check_accessible(self) -> None:
        """No finding of weight, by axe.

        A notice that fades in or out has no colours of its own yet, an editor that is being made no name and colours.
        """
        self.page.wait_for_function("!document.querySelector('.hr-editor:not(:has(.cm-content[aria-label]))')")
        while True:
            self.page.wait_for_function(f"!{_NOTIFICATIONS}.includes('-active')")
            before = self.page.evaluate(_NOTIFICATIONS)
            found = Axe().run(self.page, options=_WITHOUT_STYLES).response["violations"]
            if self.page.evaluate(_NOTIFICATIONS) == before:  # else one has begun to fade meanwhile
                break
        grave = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not grave, "\n".join(f"{one['id']}: {[node['html'] for node in one['nodes']][:3]}" for one in grave)


@pytest.fixture(params=[{}], ids=[""])
def visitor(request: pytest.FixtureRequest, live_server: Server, chromium: Browser) -> Iterator[Visitor]:
    """A new window of the operator; by parameter another width, or dark."""
    with visiting(chromium, live_server, **request.param) as one:
        one.open_login_link(live_server)
        yield one


@contextmanager
def visiting(chromium: Browser, live_server: Server, **window: Any) -> Iterator[Visitor]:
    with chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **window}) as context:
        one = Visitor(context.new_page(), f"http://127.0.0.1:{live_server.port}")
        one.page.set_default_timeout(PATIENCE)
        one.page.on("console", one.note)
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("request", one.check_origin)
        yield one
    assert not one.complaints
