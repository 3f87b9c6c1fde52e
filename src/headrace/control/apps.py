"""Apps on a server: Python code that declares functions and operators for statements to call.

Code is journalled beside statements, and is in place before any of them is planned. An app that is sent again replaces
its code as a whole, for the queries that call it too. All statements of a server see the same names, so no two apps may
declare the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.engine.batch.shipping import Setup, no_setup
from headrace.errors import FunctionExists, UnknownApp
from headrace.lang.ksql.ast import InsertValues
from headrace.lang.ksql.parser import parse_one
from headrace.lang.python.app import App
from headrace.lang.python.loading import Code, Together, app_of
from headrace.plan.chain.shape import own_code
from headrace.plan.nodes import Query


@dataclass(frozen=True)
class Deployed:
    """An app as it was sent."""

    code: Code
    app: App

    @property
    def name(self) -> str:
        return self.app.name or self.code.name

    @property
    def declares(self) -> set[str]:
        """`function MASKED`, `operator VISITS`."""
        return self.code.declared.names

    def left_to_do(self, before: Deployed | None, there: Set[str]) -> list[str]:
        """Of its statements: what is there stays as it is, and rows that it has inserted are not inserted again."""
        done = () if before is None else before.app.statements
        inserted = {text for text in done if isinstance(parse_one(text), InsertValues)}
        return [text for text in self.app.statements if text not in there | inserted]


@dataclass
class Apps:
    """By their names."""

    known: dict[str, Deployed] = field(default_factory=dict)
    base: Setup = no_setup
    """What every query needs besides."""

    def get(self, name: str) -> Deployed:
        if name not in self.known:
            there = ", ".join(self.known) or "none"
            raise UnknownApp(f'there is no app "{name}"', fix=f"apps are: {there}")
        return self.known[name]

    def take(self, code: Code) -> Deployed:
        """Execute it, and have it in place of what the app was before."""
        with self.trial(code) as deployed:
            self.known[deployed.name] = deployed
        return deployed

    @contextmanager
    def trial(self, code: Code) -> Iterator[Deployed]:
        """What it declares is in place to the end of the block, and stays if that does not fail."""
        deployed = Deployed(code, app_of(code))
        before = self.known.get(deployed.name)
        try:
            if before is not None:
                before.code.declared.withdraw()
            self._check(deployed)
            deployed.code()
            yield deployed
        except BaseException:
            code.declared.withdraw()
            for app in self.known.values():
                app.code()
            raise

    def _check(self, deployed: Deployed) -> None:
        for name, other in self.known.items():
            if name != deployed.name and (same := sorted(deployed.declares & other.declares)):
                raise FunctionExists(
                    f'app "{name}" has declared {same[0]} already', where=deployed.code.path, fix="give it another name"
                )

    def withdraw(self, name: str) -> None:
        self.known.pop(name).code.declared.withdraw()

    def setup_of(self, query: Query) -> Setup:
        """What a process must do before it can run the query."""
        if not self.known or not (called := own_code(query).keys()):
            return self.base
        # What an imported module declared belongs to no app: any of them may have imported it.
        everything = called - {name for app in self.known.values() for name in app.declares}
        codes = (app.code for app in self.known.values() if everything or called & app.declares)
        return Together((self.base, *codes))

    def users(self, name: str, queries: Iterable[Query]) -> list[str]:
        """Queries that cannot do without the app."""
        code = self.known[name].code
        setups = ((query.id, self.setup_of(query)) for query in queries)
        return [query for query, setup in setups if isinstance(setup, Together) and code in setup.setups]
