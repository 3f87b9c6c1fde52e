"""Without a log-in only the login page is reachable; with it, only what was granted is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.tables.serve_server import PROGRAM, Server, server
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visitor, visiting

PASSWORDS = {"ada": "correct horse battery", "bob": "staple gun in a drawer"}


def command(folder: Path, *words: str, text: str = "") -> None:
    done = [sys.executable, "-c", PROGRAM, "--data", str(folder), *words]
    subprocess.run(done, input=text, text=True, check=True, capture_output=True)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that wants to know who asks: ada may do everything, bob read one topic."""
    folder = tmp_path_factory.mktemp("closed") / "data"
    command(folder, "topic", "create", "open.to.bob")
    command(folder, "topic", "create", "hidden")
    command(folder, "role", "grant", "looker", "read", "topic", "open.to.bob")
    command(folder, "user", "add", "ada", "--role", "admin", text=f"{PASSWORDS['ada']}\n")
    command(folder, "user", "add", "bob", "--role", "looker", text=f"{PASSWORDS['bob']}\n")
    with server(folder, auth_mode="required", spark_driver_memory="512MB") as running:
        yield running


@pytest.fixture
def visitor(closed: Server, chromium: Browser) -> Iterator[Visitor]:
    with visiting(chromium, closed) as one:
        yield one


def log_in(visitor: Visitor, name: str, password: str) -> None:
    page = visitor.page
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_a_user_logs_in_returns_to_the_requested_page_and_logs_out(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/ui/topics")
    visitor.check_accessible()
    visitor.picture("log-in")
    log_in(visitor, "ada", PASSWORDS["ada"])
    expect(page.locator("main h1")).to_have_text("Topics")
    expect(page.locator(".hr-grid")).to_contain_text("hidden")
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/ui/log-in"))
    page.goto(f"{visitor.address}/ui/topics")
    expect(page).to_have_url(re.compile("/ui/log-in"))


def test_an_expired_session_redirects_to_the_login_page(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/ui/topics")
    log_in(visitor, "ada", PASSWORDS["ada"])
    expect(page.locator(".hr-grid")).to_contain_text("hidden")
    page.evaluate("headrace.ask('DELETE', '/session')")  # as in another tab
    expect(page).to_have_url(re.compile("/ui/log-in"))
    log_in(visitor, "ada", PASSWORDS["ada"])
    expect(page.locator("main h1")).to_have_text("Topics")
    visitor.complaints.clear()  # the browser tells of every 401


def test_a_wrong_password_is_refused(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/ui/")
    log_in(visitor, "ada", "wrong")
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page).to_have_url(re.compile("/ui/log-in"))
    visitor.complaints.clear()  # the browser tells of every 401


def test_pages_show_only_what_is_granted(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/ui/topics")
    log_in(visitor, "bob", PASSWORDS["bob"])
    expect(page.locator(".hr-grid")).to_contain_text("open.to.bob")
    expect(page.locator(".hr-grid")).not_to_contain_text("hidden")
    page = visitor.visit("/topics/hidden")
    expect(page.get_by_role("alert")).to_contain_text("not-allowed")
    page = visitor.visit("/doctor")
    expect(page.get_by_role("alert")).to_contain_text("not-allowed")
    page = visitor.visit("/statements")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("CREATE STREAM x (a STRING) WITH (kafka_topic='hidden', format='JSON');")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("not-allowed")


def test_without_a_login_the_console_works_and_offers_one_where_it_is_needed(
    live_server: Server, chromium: Browser
) -> None:
    with visiting(chromium, live_server) as visitor:
        page = visitor.visit("/topics")
        expect(page.locator(".hr-grid")).to_contain_text("clicks")
        page = visitor.visit("/doctor")
        expect(page.get_by_role("alert")).to_contain_text("secret-required")
        visitor.check_accessible()
        page.get_by_role("link", name="Log in").click()
        expect(page).to_have_url(re.compile("/ui/log-in"))
        path = live_server.post("/api/v1/session/links", {})["path"]
        page.goto(f"{visitor.address}{path}&next=/ui/doctor")
        expect(page).to_have_url(f"{visitor.address}/ui/doctor")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.goto(f"{visitor.address}{path}")
        expect(page.get_by_role("alert")).to_contain_text("used already")


@pytest.mark.parametrize("next", ["https://example.com/", "//example.com", "/ui/../api", "javascript:alert(1)"])
def test_the_login_redirects_only_within_the_console(visitor: Visitor, next: str) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/ui/log-in?next={next}")
    log_in(visitor, "ada", PASSWORDS["ada"])
    page.wait_for_url(f"{visitor.address}/ui/")
