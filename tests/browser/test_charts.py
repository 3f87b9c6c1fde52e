"""Charts over a view: built, saved on a dashboard with its own link, and updated live."""

from __future__ import annotations

import json
import re

import pytest
from bench.tables.serve_server import Server
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor

KINDS = ("Line", "Bar", "Top values", "Heat map", "Histogram", "Number", "Map")


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=value, exact=True).click()
    expect(page.locator(".q-menu")).to_have_count(0)


def test_a_chart_is_built_saved_and_updated(visitor: Visitor) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "Chart type", "Bar")
    choose(page, "X axis", "PAGE")
    choose(page, "Y axis", "VIEWS")
    chart = page.locator(".hr-chart svg")
    expect(chart).to_contain_text("/cart")
    visitor.picture("view")
    page.get_by_label("Chart title").fill("Views of pages")
    page.get_by_label("Dashboard name").fill("The shop today")
    page.get_by_role("button", name="Save to dashboard").click()
    expect(page.locator(".q-notification").first).to_contain_text("Saved to dashboard The shop today")
    expect(page.get_by_role("link", name="Open dashboard The shop today")).to_be_visible()
    page = visitor.visit("/dashboards")
    page.get_by_role("link", name="The shop today").click()
    expect(page.locator(".hr-panel h2")).to_have_text("Views of pages")
    before = page.locator(".hr-chart svg").inner_html()
    page.wait_for_function("before => document.querySelector('.hr-chart svg').innerHTML !== before", arg=before)
    visitor.check_accessible()


def test_a_dashboard_created_over_the_api_is_shown(visitor: Visitor, live_server: Server) -> None:
    of = {"view": "PAGE_VIEWS", "x": "PAGE", "y": "VIEWS"}
    panels = [
        {**of, "kind": "bar", "title": "Views of pages"},
        {**of, "kind": "top", "title": "Most dwelt on", "y": "DWELL", "top": 3},
        {**of, "kind": "number", "title": "Views in all"},
        {**of, "kind": "heat", "title": "Dwell by page", "y": "DWELL", "by": "VIEWS"},
    ]
    live_server.put("/api/v1/dashboards/clicks", {"title": "Clicks", "panels": panels})
    page = visitor.visit("/dashboards/clicks")
    expect(page.locator(".hr-panel h2")).to_have_text([panel["title"] for panel in panels])
    expect(page.locator(".hr-chart svg").first).to_contain_text("/cart")
    visitor.picture("dashboard")
    choose(page, "Sharing", "Others may edit")
    expect(page.locator(".q-notification").first).to_contain_text("Sharing: Others may edit")
    assert live_server.get("/api/v1/dashboards/clicks")["sharing"] == "edit"
    visitor.check_accessible()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_chart_is_drawn(visitor: Visitor, kind: str) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "Chart type", kind)
    choose(page, "X axis", "VIEWS" if kind in ("Histogram", "Map") else "PAGE")
    choose(page, "Y axis", "VIEWS")
    choose(page, "Group by", "PAGE")
    expect(page.locator(".hr-chart svg path, .hr-chart svg text")).not_to_have_count(0)
    expect(page.locator(".hr-chart svg")).not_to_contain_text("Choose")


def test_a_dashboard_shows_errors_for_missing_views_and_columns(visitor: Visitor, live_server: Server) -> None:
    panels = [
        {"kind": "bar", "view": "NOWHERE", "x": "A", "y": "B"},
        {"kind": "pie", "view": "PAGE_VIEWS", "x": 5},
        {"kind": "bar", "view": "PAGE_VIEWS", "x": "GONE"},
    ]
    live_server.put("/api/v1/dashboards/old", {"title": "Old", "panels": panels})
    page = visitor.visit("/dashboards/old")
    expect(page.locator(".hr-panel").first).to_contain_text("NOWHERE")
    expect(page.locator(".hr-panel").nth(1)).to_contain_text('Unknown chart type "pie"')
    expect(page.locator(".hr-panel").last).to_contain_text("Choose")


def test_a_chart_is_removed_and_restored_and_a_dashboard_deleted(visitor: Visitor, live_server: Server) -> None:
    live_server.put("/api/v1/dashboards/brief", {"title": "Brief", "panels": [{"kind": "bar", "title": "One"}]})
    page = visitor.visit("/dashboards/brief")
    page.get_by_role("button", name="Remove One").click()
    expect(page.locator(".hr-panel")).to_contain_text("One was removed.")
    assert live_server.get("/api/v1/dashboards/brief")["panels"] == []
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Remove One")).to_be_visible()
    assert [one["title"] for one in live_server.get("/api/v1/dashboards/brief")["panels"]] == ["One"]
    page.get_by_role("button", name="Delete dashboard").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Delete dashboard").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("main h1")).to_have_text("Dashboards")
    expect(page.locator("main")).not_to_contain_text("Brief")


def test_a_number_chart_is_readable_by_a_screen_reader(visitor: Visitor, live_server: Server) -> None:
    panel = {"kind": "number", "view": "PAGE_VIEWS", "y": "VIEWS", "title": "Views in all"}
    live_server.put("/api/v1/dashboards/heard", {"title": "Heard", "panels": [panel]})
    page = visitor.visit("/dashboards/heard")
    expect(page.get_by_role("img", name=re.compile(r"^Views in all: [\d,]+$"))).to_be_visible()


def test_another_kind_of_chart_keeps_no_options_of_the_previous_kind(visitor: Visitor) -> None:
    page = visitor.visit("/views/PAGE_VIEWS")
    choose(page, "X axis", "PAGE")
    choose(page, "Y axis", "VIEWS")
    choose(page, "Group by", "PAGE")
    choose(page, "Chart type", "Heat map")
    gradient = page.locator(".hr-chart svg linearGradient")
    expect(gradient).not_to_have_count(0)
    choose(page, "Chart type", "Bar")
    expect(page.locator(".hr-chart svg")).to_contain_text("/cart")
    expect(gradient).to_have_count(0)


@pytest.fixture(scope="module")
def paths(live_server: Server) -> Server:
    """A server with a table that does not change, whose keys are long."""
    options = "kafka_topic='paths', format='JSON', partitions=1"
    live_server.ksql(f"CREATE SOURCE TABLE paths (path STRING PRIMARY KEY, n INT) WITH ({options});")
    names = [f"/a/long/path/to/a/page/of/the/shop/{number}" for number in range(6)]
    live_server.post(
        "/api/v1/topics/paths/records", [{"key": json.dumps(name), "value": {"N": 10**6}} for name in names]
    )
    panels = [{"kind": kind, "view": "PATHS", "x": "PATH", "y": "N"} for kind in ("bar", "top")]
    panels.append({"kind": "bar", "view": "PATHS", "x": "ROWTIME", "y": "N"})
    live_server.put("/api/v1/dashboards/paths", {"panels": panels})
    return live_server


@pytest.mark.parametrize("visitor", [{"color_scheme": "dark"}], indirect=True, ids=["dark"])
def test_a_chart_is_legible_in_dark_mode(paths: Server, visitor: Visitor) -> None:
    page = visitor.visit("/dashboards/paths")
    chart = page.locator(".hr-chart svg").first
    expect(chart).to_contain_text("...")
    colours = "texts => [...new Set(texts.map(text => getComputedStyle(text).fill))]"
    assert chart.locator("text").evaluate_all(colours) == ["rgb(228, 238, 240)"]
    chart.locator("path[fill='#1b9aa3']").first.hover()
    expect(chart.locator("path[fill='var(--hr-paper)']")).not_to_have_count(0)  # the tooltip
    assert chart.locator("text").evaluate_all(colours) == ["rgb(228, 238, 240)"]


@pytest.mark.parametrize("visitor", [{"viewport": {"width": 390, "height": 800}}], indirect=True, ids=["phone"])
def test_labels_of_a_chart_fit_a_phone(paths: Server, visitor: Visitor) -> None:
    page = visitor.visit("/dashboards/paths")
    for place, label in enumerate(("...", "...", re.compile(r"\d\d:\d\d:\d\d"))):
        chart = page.locator(".hr-chart svg").nth(place)
        expect(chart).to_contain_text(label)
        outer = chart.bounding_box()
        assert outer is not None
        for text in chart.locator("text").all():
            box = text.bounding_box()
            assert box is not None
            assert outer["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= outer["x"] + outer["width"] + 1
