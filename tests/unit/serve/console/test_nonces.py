"""Which scripts and styles of a page count in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import nicegui
import pytest
from jinja2 import Environment, FileSystemLoader

from headrace.serve.console.mount import _OWN, with_nonces

FOLDER = Path(nicegui.__file__).parent / "templates"
INLINE = re.compile(r"<(?:script|style)(?![^>]*src=)[^>]*>")
COUNT = 6


def page(head: str = "") -> str:
    """As NiceGUI fills it in."""
    template = Environment(loader=FileSystemLoader(FOLDER), autoescape=True).get_template("index.html")
    given = {"imports": '{"vue": "x"}', "head_html": head, "elements": "{}", "translations": {}, "prod_js": True}
    return template.render(prefix="/ui", version="1", language="en-US", **given)


def test_all_scripts_and_styles_of_the_page_have_a_nonce() -> None:
    told = with_nonces(page().encode(), "abc").decode()
    found = INLINE.findall(told)
    assert len(found) == COUNT
    assert all('nonce="abc"' in one for one in found)


@pytest.mark.parametrize(
    "script",
    [
        "<script>alert(1)</script>",
        '<script type="module">alert(1)</script>',
        '<script src="//elsewhere">',
        "<style>body { background: url(//elsewhere) }</style>",
    ],
)
def test_an_injected_script_or_style_has_no_nonce(script: str) -> None:
    told = with_nonces(page(script).encode(), "abc").decode()
    assert script in told
    assert told.count("nonce=") == COUNT


@pytest.mark.parametrize("own", [one for one in _OWN if not one.endswith((b"</script>", b"</style>"))])
def test_an_injected_script_that_starts_like_one_of_the_page_has_no_nonce(own: bytes) -> None:
    put_in = own.decode() + "alert(1)</script></style>"
    assert put_in in with_nonces(page(put_in).encode(), "abc").decode()
