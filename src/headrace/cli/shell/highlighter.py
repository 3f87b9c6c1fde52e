"""Syntax highlighting of KSQL: by token kind, and by known keywords and functions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from headrace.lang.ksql.grammar.keywords import keywords
from headrace.lang.ksql.grammar.tokens import Kind, Token, tokenize

Fragment = tuple[str, str]
"""The class of a style, and a text."""

STYLES: Mapping[str, str] = {
    "keyword": "ansiblue bold",
    "function": "ansicyan",
    "text": "ansigreen",
    "name": "",
    "quoted": "ansiyellow",
    "number": "ansimagenta",
    "variable": "ansibrightmagenta",
    "comment": "ansibrightblack",
    "bad": "ansired",
    "symbol": "",
}
_BY_KIND: Mapping[Kind, str] = {
    Kind.TEXT: "text",
    Kind.QUOTED: "quoted",
    Kind.INTEGER: "number",
    Kind.DECIMAL: "number",
    Kind.DOUBLE: "number",
    Kind.VARIABLE: "variable",
    Kind.BAD: "bad",
    Kind.SYMBOL: "symbol",
}


def highlight(text: str, functions: Container[str] = ()) -> Iterator[Fragment]:
    """The whole text in fragments. The text between two tokens is white space or a comment."""
    at = 0
    for token in tokenize(text):
        if token.span.start > at:
            yield "comment", text[at : token.span.start]
        yield _style(token, functions), token.text
        at = token.span.end
    if at < len(text):
        yield "comment", text[at:]


def _style(token: Token, functions: Container[str]) -> str:
    if token.kind is not Kind.WORD:
        return _BY_KIND[token.kind]
    word = token.value.upper()
    if word in keywords():
        return "keyword"
    return "function" if word in functions else "name"
