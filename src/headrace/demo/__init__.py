"""The demo: a server with statements on Spark over a generated click stream, shown live in the terminal.

It does what a project created by `headrace init` does: the statements run in a server, clicks are appended to the log,
and queries return the results. The table in the terminal shows a push query.

    system.py      starts everything in a temporary folder, and stops it
    clicks.py      appends generated clicks
    counts.py      what the push query has returned: clicks per page and second
    display.py     shows the counts: a live table, or lines
    dashboard.py   the charts in the console
"""

from headrace.demo.system import PUSH_QUERY, run

__all__ = ["PUSH_QUERY", "run"]
