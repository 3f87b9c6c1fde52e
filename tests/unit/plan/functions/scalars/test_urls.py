from typing import Any

import pytest

from tests.unit.plan.functions.function_call import run

URL = "http://test@confluent.io:8080/nested/p%20q?one=a%26b&two=b=c&three#frag%21"

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("URL_EXTRACT_PROTOCOL", (URL,), "http"),
    ("URL_EXTRACT_PROTOCOL", ("www.test.com",), None),
    ("URL_EXTRACT_HOST", (URL,), "confluent.io"),
    ("URL_EXTRACT_HOST", ("http://www.test.com/?query#fragment",), "www.test.com"),
    ("URL_EXTRACT_HOST", ("http://10.0.0.1/",), "10.0.0.1"),
    ("URL_EXTRACT_HOST", ("http://[::1]:80/",), "[::1]"),
    ("URL_EXTRACT_HOST", ("http://under_score/",), None),
    ("URL_EXTRACT_HOST", ("mailto:a@b.c",), None),
    ("URL_EXTRACT_HOST", (None,), None),
    ("URL_EXTRACT_PORT", (URL,), 8080),
    ("URL_EXTRACT_PORT", ("http://test@confluent.io",), None),
    ("URL_EXTRACT_PORT", ("http://confluent.io:/",), None),
    ("URL_EXTRACT_PATH", (URL,), "/nested/p q"),
    ("URL_EXTRACT_PATH", ("http://www.test.com?query#fragment",), ""),
    ("URL_EXTRACT_PATH", ("mailto:a@b.c",), None),
    ("URL_EXTRACT_PATH", ("/just/a/path",), "/just/a/path"),
    ("URL_EXTRACT_PATH", ("file:///etc/hosts",), "/etc/hosts"),
    ("URL_EXTRACT_QUERY", ("http://www.test.com/path?q1&q2",), "q1&q2"),
    ("URL_EXTRACT_QUERY", ("http://test@confluent.io:8080/path",), None),
    ("URL_EXTRACT_FRAGMENT", (URL,), "frag!"),
    ("URL_EXTRACT_FRAGMENT", ("http://a.org/",), None),
    ("URL_EXTRACT_PARAMETER", ("http://www.test.com/?one=a&two=b&three", "two"), "b"),
    ("URL_EXTRACT_PARAMETER", (URL, "two"), "b=c"),
    ("URL_EXTRACT_PARAMETER", (URL, "three"), ""),
    ("URL_EXTRACT_PARAMETER", (URL, "four"), None),
    ("URL_EXTRACT_PARAMETER", ("http://a.org/", "one"), None),
    ("URL_EXTRACT_PARAMETER", (URL, None), None),
    ("URL_ENCODE_PARAM", ("?foo $bar",), "%3Ffoo+%24bar"),
    ("URL_ENCODE_PARAM", ("a-_.*~ä",), "a-_.*%7E%C3%A4"),
    ("URL_ENCODE_PARAM", (None,), None),
    ("URL_DECODE_PARAM", ("url%20encoded+%C3%A4",), "url encoded ä"),
]


@pytest.mark.parametrize(("name", "arguments", "result"), CASES)
def test_a_function_returns_its_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert run(name, *arguments) == result


@pytest.mark.parametrize(
    "url", ["http://a b.org/", "http://a.org/%zz", "http:", "http://", "http://a.org/<x>", "a|b", "1:x", "http://a#b#c"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL"):
        run("URL_EXTRACT_HOST", url)


def test_an_invalid_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="percent"):
        run("URL_DECODE_PARAM", "100%")
