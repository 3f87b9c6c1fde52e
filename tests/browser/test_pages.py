"""Every page: it is there, it moves, and what a person does on it is done."""

from __future__ import annotations

import json
import re
from urllib.request import Request, urlopen

import pytest
from bench.tables.serve_server import Server
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor

PHONE = {"viewport": {"width": 390, "height": 800}}
DARK = {"color_scheme": "dark"}
PATHS = (
    "/",
    "/topics",
    "/topics/clicks",
    "/statements",
    "/queries",
    "/views",
    "/views/PAGE_VIEWS",
    "/dashboards",
    "/alerts",
    "/doctor",
)


def typed(page: Page, text: str) -> None:
    """Replace the editor's text. The editor has its name once it completes words."""
    page.get_by_role("textbox", name="Statements").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


@pytest.mark.parametrize("visitor", [{}, PHONE, DARK], ids=["desk", "phone", "dark"], indirect=True)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible(visitor: Visitor, path: str) -> None:
    page = visitor.visit(path)
    expect(page.locator("main h1")).to_have_count(1)
    visitor.check_accessible()
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0, "the page is wider than its window"


def test_the_overview_updates(visitor: Visitor) -> None:
    page = visitor.visit("/")
    expect(page.locator(".hr-flow")).to_contain_text("clicks")
    expect(page.locator(".hr-flow")).to_contain_text("PAGE_VIEWS")
    rate = page.locator(".hr-tile").first.locator(".hr-number")
    expect(rate).to_have_text(re.compile(r"[1-9]\d*/s"))
    expect(page.locator(".hr-moving")).not_to_have_count(0)
    expect(page.locator(".hr-tile").nth(1)).to_contain_text(re.compile(r"quer(y|ies): .*\d+ running"))
    visitor.picture("overview")
    page.locator(".hr-flow a", has_text="clicks").first.click()
    expect(page.locator("main h1")).to_have_text("clicks")


def test_a_topic_is_searched(visitor: Visitor) -> None:
    page = visitor.visit("/topics/clicks")
    expect(page.locator(".hr-grid").first).to_contain_text("PAGE")
    page.get_by_label("Search text").fill("TAKEN")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_contain_text("1 match in")
    expect(page.locator(".hr-grid").first).to_contain_text("<script>document.title='taken'</script>")
    assert page.title() == "Topics - headrace"  # what stands in a record is shown, and never run
    visitor.picture("topic")


def test_a_record_is_appended_by_hand(visitor: Visitor, live_server: Server) -> None:
    page = visitor.visit("/topics/clicks")
    page.get_by_label("Key", exact=True).fill("byhand")
    page.get_by_label("Value", exact=True).fill('{"PAGE": "/by-hand", "DWELL": 1}')
    page.get_by_role("button", name="Produce").click()
    expect(page.locator(".q-notification")).to_contain_text("Record produced: partition")
    page.get_by_label("Search text").fill("by-hand")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_contain_text("1 match in")


def test_an_error_is_underlined_until_it_is_fixed(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "SELECT nothing FROM clicks EMIT CHANGES;\nSELECT * FROM nowhere;")
    expect(page.locator(".hr-wrong")).to_have_count(2)
    expect(page.get_by_label("Errors")).to_contain_text(re.compile("nothing", re.IGNORECASE))
    visitor.picture("statements-wrong")
    typed(page, "SELECT page FROM clicks EMIT CHANGES LIMIT 3;")
    expect(page.locator(".hr-wrong")).to_have_count(0)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text("3 rows")


def test_statements_are_executed_and_queries_answered(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "CREATE STREAM long_reads AS SELECT visitor, page, dwell FROM clicks WHERE dwell > 3; SHOW STREAMS;")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text("LONG_READS")
    typed(page, "SELECT page, views FROM page_views;")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Results")).to_contain_text("/search")
    typed(page, "SET 'auto.offset.reset'='earliest'; SELECT page FROM clicks EMIT CHANGES;")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Results")).to_contain_text(re.compile(r"\d+ rows"))
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_push_query_is_listed_and_killed(visitor: Visitor, live_server: Server) -> None:
    text = "SELECT page FROM clicks WHERE page = 'nowhere' EMIT CHANGES;"
    request = Request(f"http://127.0.0.1:{live_server.port}/query-stream", json.dumps({"sql": text}).encode())
    with urlopen(request, timeout=60) as answer:
        answer.readline()
        page = visitor.visit("/queries")
        processes = page.get_by_role("region", name="Pull and push queries")
        row = processes.get_by_role("row").filter(has_text="nowhere")
        expect(row).to_contain_text("push")
        visitor.check_accessible()
        row.get_by_role("button").click()
        page.get_by_role("button", name="Cancel").click()
        expect(row).to_have_count(1)
        row.get_by_role("button").click()
        page.get_by_role("dialog").get_by_role("button", name="Kill").click()
        expect(row).to_have_count(0)
        assert b"query-killed" in answer.read()


def test_print_shows_the_records_of_a_topic(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "PRINT clicks FROM BEGINNING LIMIT 3;")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text("3 rows")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    typed(page, "PRINT clicks;")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text(re.compile(r"[1-9]\d* rows"))
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_label("Results")).not_to_contain_text("rows")


def test_names_are_completed(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "SELECT * FROM page_")
    page.keyboard.press("Control+Space")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("PAGE_VIEWS")
    for text, offered in (
        ("SELECT dwe", "DWELL"),
        ("SELECT page FROM clicks EMI", "EMIT"),
        ("SELECT COLLECT_", "COLLECT_LIST"),
        ("SELECT clicks.", "VISITOR"),
    ):
        typed(page, text)
        page.keyboard.press("Control+Space")
        expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text(offered)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT dw", "DWELL"),
        ("SELECT vis", "VISITOR"),
        ("SELECT page FROM clicks EM", "EMIT"),
        ("SELECT clicks.", "DWELL"),
        ("p", "PAUSE"),
        ("SELECT page FROM clicks; d", "DEFINE"),
    ],
)
def test_the_editor_first_offers_columns_and_words_of_ksql(visitor: Visitor, text: str, offered: str) -> None:
    page = visitor.visit("/statements")
    typed(page, text)
    page.keyboard.press("Control+Space")
    offers = page.locator(".cm-tooltip-autocomplete li")
    expect(offers.locator(".cm-completionLabel").first).to_have_text(offered)
    expect(offers.locator(".cm-completionIcon").first).to_be_hidden()
    labels = offers.locator(".cm-completionLabel").all_inner_texts()
    assert [label for label in labels if label.islower()] == []  # CodeMirror's own words of SQL


def test_text_typed_while_errors_are_underlined_is_kept(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "SELECT '😀' FROM nowhere;")
    expect(page.locator(".hr-wrong")).to_have_text("nowhere")
    typed(page, text := "DROP STREAM ")
    for character in "nowhere_at_all;":  # each is typed about when the check of the text before it ends
        page.keyboard.type(character, delay=430)
        text += character
        assert page.locator(".cm-line").all_inner_texts() == [text]


def test_an_executed_statement_is_not_underlined(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    create = "CREATE STREAM done_once (a INT) WITH (kafka_topic='done_once', format='JSON', partitions=1);"
    typed(page, create)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text("OK: CREATE STREAM")
    expect(page.locator("main")).to_contain_text("Statement history")
    typed(page, f"{create}\nSELECT nothing FROM done_once EMIT CHANGES;")
    expect(page.locator(".hr-wrong")).to_have_count(1)  # of the second statement
    expect(page.get_by_label("Errors")).to_contain_text("NOTHING")
    expect(page.get_by_label("Errors")).not_to_contain_text("already exists")


def test_lists_are_shown_as_text(visitor: Visitor) -> None:
    page = visitor.visit("/statements")
    typed(page, "SHOW QUERIES; DESCRIBE page_views;")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results")).to_contain_text("CTAS_PAGE_VIEWS")
    assert not re.search(r"\['|\{'|\('|TypeCell|DataType", page.get_by_label("Results").inner_text())


def test_an_unknown_page_has_links(visitor: Visitor) -> None:
    page = visitor.visit("/nowhere")
    expect(page.locator("main h1")).to_have_text("Page not found")
    page.locator("main").get_by_role("link", name="Topics").click()
    expect(page.locator("main h1")).to_have_text("Topics")
    visitor.complaints.clear()  # the browser reports every 404


def test_a_windowed_key_is_shown_with_its_window(visitor: Visitor, live_server: Server) -> None:
    statement = "SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY page"
    live_server.ksql(f"CREATE TABLE by_minute AS {statement};")
    page = visitor.visit("/views/BY_MINUTE")
    expect(page.get_by_role("status").first).to_contain_text("is starting")  # and not "0 rows"
    page = visitor.visit("/statements")
    typed(page, "SELECT * FROM by_minute;")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Results").get_by_role("status")).to_contain_text(re.compile("is starting|rows?$"))
    page = visitor.visit("/topics/BY_MINUTE")
    page.get_by_role("switch", name="Follow new records").click()
    row = page.get_by_label("Records").locator("tbody tr").first
    expect(row).to_contain_text(re.compile(r"\d\d:\d\d:00 to "))
    expect(row).to_contain_text("/")


def test_a_query_is_shown_and_a_dead_letter_replayed(visitor: Visitor) -> None:
    page = visitor.visit("/queries")
    page.get_by_role("link", name=re.compile("CTAS_PAGE_VIEWS")).click()
    expect(page.locator("main h1")).to_have_text(re.compile("CTAS_PAGE_VIEWS"))
    expect(page.locator(".hr-facts")).to_contain_text("running")
    letters = page.get_by_label("Dead letters")
    expect(letters).to_contain_text("bad-record")
    expect(letters).to_contain_text("<script>")
    visitor.picture("query")
    letters.get_by_role("button", name="Replay").first.click()
    expect(page.locator(".q-notification").first).to_contain_text("Record replayed")


def test_a_query_is_paused_and_resumed(visitor: Visitor, live_server: Server) -> None:
    live_server.ksql("CREATE STREAM short_reads AS SELECT visitor, page FROM clicks WHERE dwell < 1;")
    page = visitor.visit("/queries")
    page.get_by_role("link", name=re.compile("CSAS_SHORT_READS")).click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".hr-facts")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".hr-facts")).not_to_contain_text("paused")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    expect(page.locator("main h1")).to_have_text("Queries")


def test_a_view_updates_and_is_searched(visitor: Visitor) -> None:
    page = visitor.visit("/views")
    page.get_by_role("link", name="PAGE_VIEWS").click()
    grid = page.locator(".hr-grid")
    before = grid.inner_text()
    expect(grid).not_to_have_text(before, use_inner_text=True)
    page.get_by_label("Search all columns").fill("cart")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_have_text("1 row")
    page.get_by_label("Filter (WHERE)", exact=True).fill("nothing > 1")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".q-notification").first).to_contain_text(re.compile("nothing", re.IGNORECASE))


def test_an_error_message_of_a_page_disappears_when_the_error_is_gone(visitor: Visitor, live_server: Server) -> None:
    declared = "CREATE SOURCE TABLE brief (id INT PRIMARY KEY) WITH (kafka_topic='brief', format='JSON', partitions=1);"
    live_server.ksql(declared)
    page = visitor.visit("/views/BRIEF")
    expect(page.get_by_role("status").first).to_have_text("0 rows")
    live_server.ksql("DROP TABLE brief;")
    expect(page.get_by_role("alert")).to_contain_text("unknown-view")
    live_server.ksql(declared)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_grid_sorts_numbers_by_keyboard(visitor: Visitor, live_server: Server) -> None:
    for name, count in (("sorted.a", 9), ("sorted.b", 100)):
        live_server.post("/api/v1/topics", {"name": name})
        live_server.post(f"/api/v1/topics/{name}/records", [{"value": "x"}] * count)
    page = visitor.visit("/topics")
    expect(page.locator(".hr-grid tr", has_text="sorted.b")).to_contain_text("100")
    heading = page.get_by_role("columnheader", name="Records", exact=True)
    heading.focus()
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    names = [one for one in page.locator(".hr-grid tbody td:first-child").all_inner_texts() if "sorted" in one]
    assert names == ["sorted.a", "sorted.b"]


def test_a_topic_is_followed(visitor: Visitor, live_server: Server) -> None:
    live_server.post("/api/v1/topics", {"name": "followed"})
    page = visitor.visit("/topics/followed")
    page.get_by_role("switch", name="Follow new records").click()
    for number in range(3):
        live_server.post("/api/v1/topics/followed/records", [{"key": "k", "value": f"number {number}"}])
        expect(page.locator(".hr-grid").first.locator("tbody tr").first).to_contain_text(f"number {number}")
    expect(page.locator(".hr-grid").first.locator("tbody tr")).to_have_count(3)


@pytest.mark.parametrize("path", ["/topics/nothing", "/queries/nothing", "/views/nothing", "/topics/__journal"])
def test_a_page_of_an_unknown_object_shows_an_error(visitor: Visitor, path: str) -> None:
    page = visitor.visit(path)
    expect(page.get_by_role("alert")).to_contain_text(re.compile("unknown-"))


def test_pages_are_reached_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").endswith("Topics"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("Topics")


def test_colours_are_remembered(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.get_by_role("button", name="Switch between dark and light").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.evaluate("mounted_app.$forceUpdate()")  # as the server may have it do at any moment
    page.evaluate("Vue.nextTick()")
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page = visitor.visit("/topics")
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))


@pytest.mark.parametrize("visitor", [PHONE], indirect=True, ids=["phone"])
def test_on_a_phone_a_button_opens_the_navigation(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Topics").click()
    expect(page.locator("main h1")).to_have_text("Topics")
    visitor.picture("phone")


def test_styles_in_a_text_that_becomes_html_do_not_count(visitor: Visitor) -> None:
    page = visitor.visit("/topics")
    text = "<style>main { opacity: 0.5 }</style>"
    page.evaluate("(text) => document.querySelector('main').insertAdjacentHTML('beforeend', text)", text)
    assert page.evaluate("getComputedStyle(document.querySelector('main')).opacity") == "1"
    assert len(visitor.complaints) == 1  # any other violation of the policy fails a test, too
    visitor.complaints.clear()
