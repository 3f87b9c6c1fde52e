"""An app run from a Python script or a notebook, on the log of the settings.

    if __name__ == "__main__":
        hr.run(app)

It runs until Ctrl-C, or with `until_idle` until all that is there is done. Run again under the same name, it goes on
where it was. `headrace run app.py` does the same, and shows how it goes. In a notebook `hr.start(app)` comes back at
once, and what it gives can be sent rows and looked at.

A server that runs already takes an app by `hr.deploy(app)`, or `headrace deploy app.py`.

Spark is imported when something is run: a file that is only looked at pays nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import BadPython
from headrace.lang.python.app import App
from headrace.lang.python.loading import Code, is_loading, main_code

if TYPE_CHECKING:
    from headrace.apps.running import Running
    from headrace.client.client import Document


def run(app: App, *, until_idle: bool = False, data: Path | str | None = None, **settings: Any) -> None:
    """Run the app's queries on Spark. `data` is the embedded log's folder; other settings go by their names."""
    if is_loading():
        return  # somebody looks what the file declares
    with start(app, data=data, **settings) as running:
        try:
            running.wait(until_idle=until_idle)
        except KeyboardInterrupt:
            return  # the batches under way end


def start(app: App, *, data: Path | str | None = None, **settings: Any) -> Running:
    """Begin to run the app's queries on Spark, and come back."""
    from headrace.apps import running

    return running.start(app, data, settings)


def deploy(app: App, server: str = "http://127.0.0.1:8088") -> Document:
    """Send the file that is running, whose app this is, to a server; tells what it declares and what was done."""
    from headrace.client import Client

    if is_loading():
        return {}
    code = main_code()
    if not isinstance(code, Code):
        raise BadPython("only a file can be sent to a server", fix="put the app into a file, and run that")
    return Client(server).deploy(code.source, f"{app.name or code.name}.py")
