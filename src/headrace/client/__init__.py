"""A server's client: statements, queries and rows over HTTP/1.1, with nothing but the standard library.

    client = Client("http://127.0.0.1:8088")
    client.execute("CREATE STREAM ...;")
    with client.query("SELECT * FROM clicks EMIT CHANGES;") as rows:
        for row in rows: ...

It speaks ksqlDB's interface. What the server refuses is raised as the error that it is: same code, what, where and fix.
"""

from headrace.client.client import ADDRESS, Client
from headrace.client.exchange import Shown
from headrace.client.refusals import refused
from headrace.client.rows import Rows

__all__ = ["ADDRESS", "Client", "Rows", "Shown", "refused"]
