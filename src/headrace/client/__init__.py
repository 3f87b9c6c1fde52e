"""Client for a headrace server: statements, queries and inserts over HTTP/1.1, using only the standard library.

    client = Client("http://127.0.0.1:8088")
    client.execute("CREATE STREAM ...;")
    with client.query("SELECT * FROM clicks EMIT CHANGES;") as rows:
        for row in rows: ...

It uses ksqlDB's REST API. An error of the server is raised as the original exception: same code, what, where and fix.
"""

from headrace.client.client import DEFAULT_ADDRESS, Client
from headrace.client.errors import error_from
from headrace.client.exchange import Credentials
from headrace.client.row_stream import RowStream

__all__ = ["DEFAULT_ADDRESS", "Client", "Credentials", "RowStream", "error_from"]
