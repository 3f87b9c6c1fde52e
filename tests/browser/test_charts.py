"""Charts are built over a view, saved on a dashboard that has a link, and move."""

from __future__ import annotations

import re

import pytest
from bench.tables.serve_server import Server
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor

KINDS = ("Line", "Bars", "Largest", "Heat map", "Histogram", "Number", "Map")


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=value, exact=True).click()
    expect(page.locator(".q-menu")).to_have_count(0)


def test_a_chart_is_built_saved_and_moves(visitor: Visitor) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "Kind", "Bars")
    choose(page, "x", "PAGE")
    choose(page, "y", "VIEWS")
    chart = page.locator(".hr-chart svg")
    expect(chart).to_contain_text("/cart")
    visitor.picture("view")
    page.get_by_label("Title of the chart").fill("Views of pages")
    page.get_by_label("Dashboard", exact=True).fill("shop")
    page.get_by_role("button", name="Save to dashboard").click()
    expect(page.locator(".q-notification").first).to_contain_text("saved on shop")
    page = visitor.visit("/boards")
    page.get_by_role("link", name="shop").click()
    expect(page.locator(".hr-panel h2")).to_have_text("Views of pages")
    before = page.locator(".hr-chart svg").inner_html()
    page.wait_for_function("before => document.querySelector('.hr-chart svg').innerHTML !== before", arg=before)
    visitor.check_accessible()


def test_a_board_that_a_program_made(visitor: Visitor, there: Server) -> None:
    of = {"view": "PAGE_VIEWS", "x": "PAGE", "y": "VIEWS"}
    panels = [
        {**of, "kind": "bar", "title": "Views of pages"},
        {**of, "kind": "top", "title": "Most dwelt on", "y": "DWELL", "top": 3},
        {**of, "kind": "number", "title": "Views in all"},
        {**of, "kind": "heat", "title": "Dwell by page", "y": "DWELL", "by": "VIEWS"},
    ]
    there.put("/api/v1/boards/clicks", {"title": "Clicks", "panels": panels})
    page = visitor.visit("/boards/clicks")
    expect(page.locator(".hr-panel h2")).to_have_text([panel["title"] for panel in panels])
    expect(page.locator(".hr-chart svg").first).to_contain_text("/cart")
    visitor.picture("dashboard")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(visitor: Visitor, kind: str) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "Kind", kind)
    choose(page, "x", "VIEWS" if kind in ("Histogram", "Map") else "PAGE")
    choose(page, "y", "VIEWS")
    choose(page, "by", "PAGE")
    expect(page.locator(".hr-chart svg path, .hr-chart svg text")).not_to_have_count(0)
    expect(page.locator(".hr-chart svg")).not_to_contain_text("choose")


def test_a_board_that_names_what_is_gone(visitor: Visitor, there: Server) -> None:
    panels = [
        {"kind": "bar", "view": "NOWHERE", "x": "A", "y": "B"},
        {"kind": "pie", "view": "PAGE_VIEWS", "x": 5},
        {"kind": "bar", "view": "PAGE_VIEWS", "x": "GONE"},
    ]
    there.put("/api/v1/boards/old", {"title": "Old", "panels": panels})
    page = visitor.visit("/boards/old")
    expect(page.locator(".hr-panel").first).to_contain_text("NOWHERE")
    expect(page.locator(".hr-panel").nth(1)).to_contain_text('there is no kind "pie"')
    expect(page.locator(".hr-panel").last).to_contain_text("choose")


def test_a_board_is_deleted_by_who_means_it(visitor: Visitor, there: Server) -> None:
    there.put("/api/v1/boards/brief", {"title": "Brief", "panels": [{"kind": "bar", "title": "One"}]})
    page = visitor.visit("/boards/brief")
    page.get_by_role("button", name="Remove One").click()
    expect(page.locator(".hr-panel")).to_have_count(0)
    page.get_by_role("button", name="Delete this dashboard").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Delete this dashboard").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.locator("main h1")).to_have_text("Dashboards")
    expect(page.locator("main")).not_to_contain_text("Brief")


def test_a_number_is_read_to_who_cannot_see_it(visitor: Visitor, there: Server) -> None:
    panel = {"kind": "number", "view": "PAGE_VIEWS", "y": "VIEWS", "title": "Views in all"}
    there.put("/api/v1/boards/heard", {"title": "Heard", "panels": [panel]})
    page = visitor.visit("/boards/heard")
    expect(page.get_by_role("img", name=re.compile(r"^Views in all: [\d,]+$"))).to_be_visible()


def test_another_kind_keeps_nothing_of_the_one_before(visitor: Visitor) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "x", "PAGE")
    choose(page, "y", "VIEWS")
    choose(page, "by", "PAGE")
    choose(page, "Kind", "Heat map")
    gradient = page.locator(".hr-chart svg linearGradient")
    expect(gradient).not_to_have_count(0)
    choose(page, "Kind", "Bars")
    expect(page.locator(".hr-chart svg")).to_contain_text("/cart")
    expect(gradient).to_have_count(0)
