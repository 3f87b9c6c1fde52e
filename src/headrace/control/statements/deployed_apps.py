"""Apps deployed on a server: Python code that declares functions and operators for statements.

Code is journalled with the statements, and loaded before any of them is planned. An app that is deployed again replaces
its code as a whole, also for the queries that call it. All statements of a server share one namespace, so no two apps
may declare the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.errors import FunctionExists, UnknownApp, suggestion
from headrace.lang.python.app import App
from headrace.lang.python.app_code import AppCode, CombinedSetup, app_of
from headrace.lang.registry import dialect_of
from headrace.plan.analysis.state_shape import user_code_versions
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, no_setup


@dataclass(frozen=True)
class DeployedApp:
    """An app with its code."""

    code: AppCode
    app: App

    @property
    def name(self) -> str:
        return self.app.name or self.code.name

    @property
    def declares(self) -> set[str]:
        """The declared names, for example `function MASKED`, `operator VISITS`."""
        return self.code.declared.names

    def unapplied_statements(self, before: DeployedApp | None, applied: Set[str]) -> list[str]:
        """The app's statements that are not applied yet; rows that it inserted before are not inserted again."""
        previous = () if before is None else before.app.statements
        inserted = {text for text in previous if dialect_of().parse_one(text).inserts_rows}
        return [text for text in self.app.statements if text not in applied | inserted]


@dataclass
class AppRegistry:
    """The deployed apps by name."""

    deployed_apps: dict[str, DeployedApp] = field(default_factory=dict)
    base: Setup = no_setup
    """Setup that every query needs in addition."""

    def get(self, name: str) -> DeployedApp:
        if name not in self.deployed_apps:
            names = ", ".join(self.deployed_apps) or "none"
            fix = suggestion(name, self.deployed_apps, f"apps are: {names}")
            raise UnknownApp(f'app "{name}" does not exist', fix=fix)
        return self.deployed_apps[name]

    def add(self, code: AppCode) -> DeployedApp:
        """Execute the code; it replaces the app's earlier code."""
        with self.stage(code) as deployed:
            self.deployed_apps[deployed.name] = deployed
        return deployed

    @contextmanager
    def stage(self, code: AppCode) -> Iterator[DeployedApp]:
        """Declare the app's functions for the block; they stay declared unless the block raises."""
        deployed = DeployedApp(code, app_of(code))
        before = self.deployed_apps.get(deployed.name)
        try:
            if before is not None:
                before.code.declared.withdraw()
            self._check(deployed)
            deployed.code()
            yield deployed
        except BaseException:
            code.declared.withdraw()
            for app in self.deployed_apps.values():
                app.code()
            raise

    def _check(self, deployed: DeployedApp) -> None:
        for name, other in self.deployed_apps.items():
            if name != deployed.name and (same := sorted(deployed.declares & other.declares)):
                raise FunctionExists(
                    f'app "{name}" already declares {same[0]}', where=deployed.code.path, fix="rename the function"
                )

    def withdraw(self, name: str) -> None:
        self.deployed_apps.pop(name).code.declared.withdraw()

    def setup_of(self, query: Query) -> Setup:
        """The setup that a process must run before it can run the query."""
        if not self.deployed_apps or not (called := user_code_versions(query).keys()):
            return self.base
        # A declaration of an imported module belongs to no app: any app may have imported the module.
        needs_all = called - {name for app in self.deployed_apps.values() for name in app.declares}
        codes = (app.code for app in self.deployed_apps.values() if needs_all or called & app.declares)
        return CombinedSetup((self.base, *codes))

    def dependent_queries(self, name: str, queries: Iterable[Query]) -> list[str]:
        """Queries that depend on the app."""
        code = self.deployed_apps[name].code
        setups = ((query.id, self.setup_of(query)) for query in queries)
        return [query for query, setup in setups if isinstance(setup, CombinedSetup) and code in setup.setups]
