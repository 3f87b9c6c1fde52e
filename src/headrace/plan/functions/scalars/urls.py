"""Functions over URLs, parsed as by `java.net.URI`: strictly, and with escapes decoded in the results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote_plus, unquote

from headrace.plan.functions.declaration import Function, Overload, never_growing
from headrace.plan.limits import cache_short

AREA = "urls"

# A non-ASCII character is allowed everywhere, unless it is a space or a control character.
_OTHER = r"\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ud7ff\ue000-\U0010ffff"
_FREE = rf"[A-Za-z0-9\-_.!~*'();:@&=+$,{_OTHER}]|%[0-9A-Fa-f]{{2}}"
_PATH = rf"(?:{_FREE}|/)*"
_ANY = rf"(?:{_FREE}|[/?\[\]])*"
_URI = re.compile(
    rf"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?=[^#])|(?![^/?#]*:))"
    rf"(?://(?:(?P<authority>(?:{_FREE}|[\[\]])+)|(?=/))|(?!//))(?P<path>{_PATH})(?:\?(?P<query>{_ANY}))?(?:\#(?P<fragment>{_ANY}))?"
)
_OPAQUE = re.compile(rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?=[^/#]){_ANY}(?:\#(?P<fragment>{_ANY}))?")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_SERVER = re.compile(
    rf"(?:[^@\[\]]*@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|{_BYTE}(?:\.{_BYTE}){{3}}"
    rf"|(?:{_LABEL}\.)*[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?)(?::(?P<port>\d*))?"
)


@dataclass(frozen=True)
class Uri:
    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


@cache_short(1000)
def parsed(text: str) -> Uri:
    """Returns the parts of a URI, decoded; raises ValueError if it is invalid."""
    opaque = _OPAQUE.fullmatch(text)
    if opaque:
        return Uri(opaque["scheme"], fragment=_decoded(opaque["fragment"]))
    match = _URI.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a URL")
    # An authority that is not host and port is registry-based, and has neither.
    server = _SERVER.fullmatch(match["authority"] or "")
    return Uri(
        match["scheme"],
        server["host"] if server else None,
        int(server["port"]) if server and server["port"] else None,
        _decoded(match["path"]),
        _decoded(match["query"]),
        _decoded(match["fragment"]),
    )


def _decoded(text: str | None) -> str | None:
    return None if text is None else unquote(text)


def parameter(url: str, name: str) -> str | None:
    for pair in (parsed(url).query or "").split("&"):
        key, _, value = pair.partition("=")
        if key == name and pair:
            return value
    return None


def encode_param(text: str) -> str:
    # Python leaves a tilde as it is and escapes an asterisk; HTML forms do the opposite.
    return quote_plus(text, safe="*").replace("~", "%7E")


def decode_param(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError("a percent sign is not followed by two hexadecimal digits")
    return unquote(text.replace("+", " "))


def _part(name: str, kind: str, doc: str, python: Callable[[str], object], example: tuple[str, str]) -> Function:
    return Function(name, doc, never_growing(Overload(f"(url: string) -> {kind}", python)), example, area=AREA)


FUNCTIONS = (
    Function(
        "URL_ENCODE_PARAM",
        "Encodes a string as a value in the query of a URL.",
        (Overload("(text: string) -> string", encode_param),),
        ("URL_ENCODE_PARAM('url encoded')", "'url+encoded'"),
        area=AREA,
    ),
    Function(
        "URL_DECODE_PARAM",
        "Decodes a value in the query of a URL.",
        never_growing(Overload("(text: string) -> string", decode_param)),
        ("URL_DECODE_PARAM('url%20encoded')", "'url encoded'"),
        area=AREA,
    ),
    Function(
        "URL_EXTRACT_PARAMETER",
        "The value of a parameter in the query of a URL; null if the URL does not have it.",
        never_growing(Overload("(url: string, name: string) -> string", parameter)),
        ("URL_EXTRACT_PARAMETER('https://a.org/?one=1&two=2', 'two')", "'2'"),
        area=AREA,
    ),
    _part(
        "URL_EXTRACT_FRAGMENT",
        "string",
        "The fragment of a URL: the part after #.",
        lambda url: parsed(url).fragment,
        ("URL_EXTRACT_FRAGMENT('https://a.org/x#here')", "'here'"),
    ),
    _part(
        "URL_EXTRACT_HOST",
        "string",
        "The host of a URL.",
        lambda url: parsed(url).host,
        ("URL_EXTRACT_HOST('https://a.org:8080/x')", "'a.org'"),
    ),
    _part(
        "URL_EXTRACT_PATH",
        "string",
        "The path of a URL.",
        lambda url: parsed(url).path,
        ("URL_EXTRACT_PATH('https://a.org/x/y?q')", "'/x/y'"),
    ),
    _part(
        "URL_EXTRACT_PORT",
        "int",
        "The port of a URL; null if the URL has none.",
        lambda url: parsed(url).port,
        ("URL_EXTRACT_PORT('https://a.org:8080/x')", "8080"),
    ),
    _part(
        "URL_EXTRACT_PROTOCOL",
        "string",
        "The protocol of a URL.",
        lambda url: parsed(url).scheme,
        ("URL_EXTRACT_PROTOCOL('https://a.org')", "'https'"),
    ),
    _part(
        "URL_EXTRACT_QUERY",
        "string",
        "The query of a URL: the part after ?; null if the URL has none.",
        lambda url: parsed(url).query,
        ("URL_EXTRACT_QUERY('https://a.org/x?q=1')", "'q=1'"),
    ),
)
