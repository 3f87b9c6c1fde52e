"""One module per table, each with a `TABLE`; `bench/settings/<table>.toml` holds its settings."""

from __future__ import annotations

import importlib
import pkgutil

from bench.harness.case import Table
from headrace.errors import BadOption


def table(name: str) -> Table:
    if name not in names():
        raise BadOption(f'there is no table "{name}"', fix=f"tables are: {', '.join(names())}")
    return importlib.import_module(f"bench.tables.{name}").TABLE


def names() -> list[str]:
    """Modules with an underscore belong to the table before it."""
    return [item.name for item in pkgutil.iter_modules(__path__) if "_" not in item.name]
