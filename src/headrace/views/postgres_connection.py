"""Connections to PostgreSQL: pooled, used by one thread at a time, with failures translated into headrace's errors.

Failures that may pass (no response, the server starts or stops, too many connections, a lock) are
`DatabaseUnreachable`, and the connection is discarded if its state is unknown. Failures that need an administrator (a
password, a privilege, a database that does not exist) are `DatabaseRefused`. Any other error of the server is a bug in
headrace and is raised unchanged.
"""

from __future__ import annotations

import getpass
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from headrace.errors import BadSetting, Closed, DatabaseRefused, DatabaseUnreachable, HeadraceError

_PATIENCE = 10.0
"""Connect timeout in seconds."""
_IDLE = 16
"""Most idle connections in the pool."""
_FIX = "write postgresql://user:password@host:5432/database"
_SECURITY = ("disable", "prefer", "require", "verify-full")
_SESSION = {
    "client_encoding": "UTF8",
    "extra_float_digits": "3",  # floating-point numbers are returned exactly
    "bytea_output": "hex",
    "synchronous_commit": "off",  # as with SQLite files: rows and position may go back together, and are read again
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",  # compiling a query takes longer than running it
}
# A peer that disappears silently is detected within half a minute, however long a statement may take.
_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}

_PASSING = ("08", "40", "53", "57", "55P03")
_REFUSED = ("28", "3D", "42501", "0A")
UNDEFINED_TABLE = "42P01"


@dataclass(frozen=True)
class PostgresAddress:
    """The address of a database, parsed from its URL."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    security: str = "prefer"
    authority: str | None = None
    """File with the CA certificates that the server's certificate is verified against."""

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        host, security = options.pop("host", None), options.pop("sslmode", "prefer")
        authority = options.pop("sslrootcert", None)
        if parts.scheme not in ("postgresql", "postgres") or options or security not in _SECURITY:
            raise _bad_url(f"cannot have {', '.join(options)}" if options else "is no URL of a PostgreSQL database")
        try:
            port = parts.port or 5432
        except ValueError as error:
            raise _bad_url("has no such port") from error
        user = unquote(parts.username or "") or getpass.getuser()
        database = unquote(parts.path[1:]) or user
        name = host or unquote(parts.hostname or "127.0.0.1")
        return cls(name, port, database, user, unquote(parts.password or ""), security, authority)

    def __str__(self) -> str:
        return f"{self.database} at {self.host}:{self.port}"

    @property
    def is_file(self) -> bool:
        """Whether it is a Unix socket, in the folder that the host names."""
        return self.host.startswith("/")

    def socket(self) -> socket.socket:
        if self.is_file:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(_PATIENCE)
            connection.connect(f"{self.host}/.s.PGSQL.{self.port}")
        else:
            connection = socket.create_connection((self.host, self.port), _PATIENCE)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _ALIVE.items():
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def encryption(self) -> ssl.SSLContext | bool | None:
        """The driver's `ssl_context`: None is encrypted if the server can, unverified; True is always, unverified."""
        if self.is_file or self.security == "disable":
            return False
        if self.security == "verify-full":
            return ssl.create_default_context(cafile=self.authority)
        return True if self.security == "require" else None


def _bad_url(what: str) -> BadSetting:
    return BadSetting(f'setting "views.postgres_url" {what}', fix=_FIX)


class PostgresSession:
    """One connection. Values are passed separately from statements, as `$1`, `$2` ..., each as the text of a value."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self.broken = False
        with self._translated():
            plug = address.socket()
            self._connection = Connection(
                address.user,
                host=address.host,
                database=address.database,
                password=address.password,
                ssl_context=address.encryption(),
                sock=plug,
                application_name="headrace",
                startup_params=dict(_SESSION),
            )
            # A statement may take long; see _ALIVE. If the connection is encrypted, the driver has replaced the socket.
            (self._connection._usock or plug).settimeout(None)

    def run(self, statement: str, *values: str | None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._run(statement, values).rows or ()]

    def count(self, statement: str, *values: str | None) -> int:
        """Runs a statement and returns how many rows it changed."""
        return self._run(statement, values).row_count

    def _run(self, statement: str, values: tuple[str | None, ...]) -> Any:
        with self._translated():
            if values:
                return self._connection.execute_unnamed(statement, values)
            return self._connection.execute_simple(statement)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (InterfaceError, OSError) as error:
            self.broken = True
            raise self._lost(error) from error
        except DatabaseError as error:
            ours = self._as_headrace_error(error)
            if ours is None:
                raise
            raise ours from error
        except BaseException:
            self.broken = True  # interrupted in the middle of an exchange
            raise

    def _lost(self, error: Exception) -> HeadraceError:
        """Finds the server's error: a driver that fails to close a refused connection reports only that."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._refused(str(error))
        before = error.__context__
        while before is not None and not isinstance(before, DatabaseError):
            before = before.__context__
        return (before and self._as_headrace_error(before)) or self._unreachable(str(error.__cause__ or error))

    def _as_headrace_error(self, error: DatabaseError) -> HeadraceError | None:
        code, message = sqlstate(error), error.args[0].get("M", "")
        self.broken = self.broken or code.startswith(("08", "57"))
        if code.startswith(_PASSING):
            return self._unreachable(message)
        return self._refused(message) if code.startswith(_REFUSED) else None

    def _unreachable(self, reason: str) -> DatabaseUnreachable:
        return DatabaseUnreachable(
            f"the database of the views cannot be used now: {reason}",
            where=str(self._address),
            fix="check that it runs and is reachable; the connection is retried",
        )

    def _refused(self, reason: str) -> DatabaseRefused:
        return DatabaseRefused(
            f"the database of the views refused the connection: {reason}",
            where=str(self._address),
            fix="check the setting views.postgres_url; its user must be allowed to create schemas",
        )

    def close(self) -> None:
        with suppress(Exception):  # it may be broken in any state
            self._connection.close()


class ConnectionPool:
    """The sessions of one database, shared by all views and threads."""

    def __init__(self, url: str) -> None:
        self.address = PostgresAddress.parse(url)
        self._idle: list[PostgresSession] = []
        self._closed = False
        self._failure: DatabaseUnreachable | None = None
        self._not_before = 0.0

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[PostgresSession]:
        session = self._begun(begin)
        try:
            yield session
            session.run("COMMIT")
        except BaseException:
            if not session.broken:
                with suppress(HeadraceError):
                    session.run("ROLLBACK")
            raise
        finally:
            self._release(session)

    def _begun(self, begin: str) -> PostgresSession:
        """Begins a transaction. An idle session may have been disconnected meanwhile."""
        if self._closed:
            raise Closed("the database of the views is closed", fix="open it again")
        while self._idle:
            with suppress(IndexError, HeadraceError):
                session = self._idle.pop()
                session.run(begin)
                return session
        session = self._connected()
        session.run(begin)
        return session

    def _connected(self) -> PostgresSession:
        """Opens a session. After a failure, connecting fails at once for as long as the failed attempt took."""
        begun_at = monotonic()
        if self._failure is not None and begun_at < self._not_before:
            raise DatabaseUnreachable(self._failure.what, where=self._failure.where, fix=self._failure.fix)
        try:
            return PostgresSession(self.address)
        except DatabaseUnreachable as error:
            self._failure, self._not_before = error, 2 * monotonic() - begun_at
            raise

    def _release(self, session: PostgresSession) -> None:
        if session.broken or self._closed or len(self._idle) >= _IDLE:
            session.close()
        else:
            self._idle.append(session)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def sqlstate(error: DatabaseError) -> str:
    """The error's SQLSTATE."""
    return error.args[0].get("C", "") if error.args and isinstance(error.args[0], dict) else ""
