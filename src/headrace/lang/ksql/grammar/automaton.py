"""Runs the grammar's LALR automaton: built once, fed token by token; it can list the tokens it accepts next.

Whether a word is a keyword depends on what the automaton accepts, so it reads the tokens itself and has no lexer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import lark
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_interactive_parser import InteractiveParser

from headrace.lang.ksql.grammar.keywords import RESERVED, may_be_keyword
from headrace.lang.ksql.grammar.tokens import Kind, Token

END = "$END"


class Refused(Exception):
    """The token is not allowed at its position; without a token it is the end of the statement.

    `accepted` are the terminals allowed there, `before` those allowed one token earlier.
    """

    def __init__(self, token: Token | None, accepted: frozenset[str], before: frozenset[str]) -> None:
        super().__init__(token)
        self.token = token
        self.accepted = accepted
        self.before = before


def run(tokens: Sequence[Token], start: str) -> Any:
    """Returns the grammar's tree of a statement or expression, or raises `Refused`."""
    automaton = _Automaton(start)
    lambdas = _lambda_brackets(tokens)
    for index, token in enumerate(tokens):
        following = tokens[index + 1].value.upper() if index + 1 < len(tokens) else ""
        terminal = "_LAMBDA_OPEN" if index in lambdas else automaton.terminal(token, following)
        automaton.feed(token, terminal)
    return automaton.end()


def accepted_count(tokens: Sequence[Token], start: str) -> int:
    """Returns how many tokens the grammar accepts; one more than there are if they are complete."""
    try:
        run(tokens, start)
    except Refused as refused:
        return len(tokens) if refused.token is None else position(tokens, refused.token)
    return len(tokens) + 1


def first_words() -> frozenset[str]:
    """Returns the keywords that a statement can start with."""
    try:
        run((), "statement")
    except Refused as refused:
        return frozenset(words()[terminal] for terminal in refused.accepted & words().keys())
    raise AssertionError("the grammar accepts an empty statement")


def position(tokens: Sequence[Token], token: Token) -> int:
    """Returns the index of this very token; equal tokens may occur several times."""
    return next(index for index, one in enumerate(tokens) if one is token)


@cache
def words() -> Mapping[str, str]:
    """Returns the quoted words of the grammar, by the name of their terminal."""
    return {terminal.name: terminal.pattern.value for terminal in _grammar().terminals}


class _Automaton:
    """One run over one statement."""

    def __init__(self, start: str) -> None:
        self._parser: InteractiveParser = _grammar().parse_interactive(start=start)
        self._table = self._parser.parser_state.parse_conf.parse_table.states
        self._end = self._parser.parser_state.parse_conf.end_state
        self._before: list[Any] = self._stack()

    def terminal(self, token: Token, following: str) -> str:
        """Returns the terminal of a token here. A keyword that the grammar accepts takes precedence over a name."""
        if token.kind is Kind.SYMBOL:
            return _terminals()[token.value]
        if token.kind is not Kind.WORD:
            return token.kind
        word = token.value.upper()
        keyword = _terminals().get(word)
        if keyword is None:
            return "IDENTIFIER"
        if word in RESERVED or (may_be_keyword(word, following) and self._takes(keyword, self._stack())):
            return keyword
        return "IDENTIFIER"

    def feed(self, token: Token, terminal: str) -> None:
        stack = self._stack()
        value = words().get(terminal, token.value)
        span = token.span
        fed = lark.Token(terminal, value, span.start, span.line, span.column, end_pos=span.end)
        try:
            self._parser.feed_token(fed)
        except lark.UnexpectedToken:
            raise self._refused(token, stack) from None
        self._before = stack

    def end(self) -> Any:
        stack = self._stack()
        try:
            return self._parser.feed_eof()
        except lark.UnexpectedToken:
            raise self._refused(None, stack) from None

    def _refused(self, token: Token | None, stack: list[Any]) -> Refused:
        return Refused(token, self._accepted(stack), self._accepted(self._before))

    def _stack(self) -> list[Any]:
        return list(self._parser.parser_state.state_stack)

    def _accepted(self, stack: list[Any]) -> frozenset[str]:
        """Returns every terminal accepted next. `stack` is the one before the refusal, which leaves it half unwound."""
        return frozenset(name for name in self._table[stack[-1]] if name.isupper() and self._takes(name, stack))

    def _takes(self, terminal: str, before: list[Any]) -> bool:
        # The table says what may follow a rule anywhere; only the reductions on the stack say what may follow it here.
        stack = list(before)
        while True:
            entry = self._table[stack[-1]].get(terminal)
            if entry is None:
                return False
            action, rule = entry
            if action is Shift:
                return True
            del stack[len(stack) - len(rule.expansion) :]
            stack.append(self._table[stack[-1]][rule.origin.name][1])
            if terminal == END and stack[-1] == self._end:
                return True


def _lambda_brackets(tokens: Sequence[Token]) -> frozenset[int]:
    """Returns the positions of parentheses that open the parameters of a lambda: they close directly before `=>`."""
    positions, opened = set(), []
    for index, token in enumerate(tokens):
        if token.kind is Kind.SYMBOL and token.value == "(":
            opened.append(index)
        elif token.kind is Kind.SYMBOL and token.value == ")" and opened:
            last = opened.pop()
            if index + 1 < len(tokens) and tokens[index + 1].value == "=>":
                positions.add(last)
    return frozenset(positions)


class _NoLexer(Lexer):
    def __init__(self, conf: Any) -> None:
        """Does nothing: the automaton is fed directly."""

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        raise NotImplementedError


@cache
def _grammar() -> lark.Lark:
    return lark.Lark(
        files("headrace.lang.ksql.grammar").joinpath("grammar.lark").read_text(),
        parser="lalr",
        lexer=_NoLexer,
        start=["statement", "expression"],
        propagate_positions=True,
        maybe_placeholders=False,
    )


@cache
def _terminals() -> Mapping[str, str]:
    return {word: name for name, word in words().items()}
