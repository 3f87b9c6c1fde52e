"""Runs, starts or deploys an app from a Python script or a notebook, on the log of the settings.

    if __name__ == "__main__":
        hr.run(app)

`hr.run` runs until Ctrl-C, or with `until_idle` until all input is processed. Run again under the same name, the app
resumes. `headrace run app.py` does the same, and shows the progress. In a notebook, `hr.start(app)` returns at once;
use the result to send rows and to show tables.

`hr.deploy(app)`, or `headrace deploy app.py`, deploys an app to a running server.

Spark is imported only when an app runs: loading a file for its declarations does not need it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import BadPython
from headrace.lang.python.app import App
from headrace.lang.python.app_code import AppCode, is_loading, script_code
from headrace.settings import load_settings

if TYPE_CHECKING:
    from headrace.apps.running_app import RunningApp
    from headrace.client.client import Document


def run(app: App, *, until_idle: bool = False, data: Path | str | None = None, **settings: Any) -> None:
    """Run the app's queries on Spark. `data` is the embedded log's folder; pass other settings like `spark_master`."""
    if is_loading():
        return  # the file is only loaded for its declarations
    with start(app, data=data, **settings) as running:
        try:
            running.wait(until_idle=until_idle)
        except KeyboardInterrupt:
            return  # closing finishes the current batches


def start(app: App, *, data: Path | str | None = None, **settings: Any) -> RunningApp:
    """Start the app's queries on Spark, and return."""
    if is_loading():
        raise BadPython(
            "the file calls hr.start when it is loaded, but Spark's processes load it, too, to find its functions",
            fix='call it under `if __name__ == "__main__":`',
        )
    from headrace.apps import running_app

    return running_app.start(app, data, settings)


def deploy(app: App, server: str = "http://127.0.0.1:8088", *, token: str | None = None) -> Document:
    """Deploy the running file, which defines the app, to a server; returns its declarations and applied statements.

    The server of the data folder of the settings needs no token.
    """
    from headrace.client import Client
    from headrace.control.admin.discovery import local_token

    if is_loading():
        return {}
    code = script_code()
    if not isinstance(code, AppCode):
        raise BadPython(
            "only an app in a file can be deployed on a server", fix="save the app in a file and run the file"
        )
    token = token or local_token(load_settings().storage.data, server)
    return Client(server, token=token).deploy(code.source, f"{app.name or code.name}.py")
