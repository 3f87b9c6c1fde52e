"""All errors that a user can cause or must act on, each with a stable code.

An error carries a *code* (kebab-case, never reused), *what* happened (kind and quoted name), *where*
(file:line:col, query and option, or partition and offset) and a *fix* (one sentence to act on).
Operational failures also say what a supervisor should do: `Retry` or `Stop`.

    HeadraceError
    |-- UserError                 the request is invalid
    |   `-- StatementError        ... in a statement, with its position in the text
    |-- Retry                     transient: try again with back-off
    `-- Stop                      permanent: a person must act
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar, Self

from headrace.span import Span, place, underlined

CODES: dict[str, type[HeadraceError]] = {}


class HeadraceError(Exception):
    """Base class of all headrace errors."""

    code: ClassVar[str] = ""

    def __init_subclass__(cls, code: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is not None:
            if code in CODES:
                raise TypeError(f"error code {code!r} is declared twice")
            cls.code = code
            CODES[code] = cls

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark workers, bench peers), so keyword fields must survive pickling.
        return (_rebuild, (type(self), self.what, self.where, self.fix))

    def as_dict(self) -> dict[str, str | None]:
        """The error as JSON; the only JSON form of errors."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}


def _rebuild(cls: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return cls(what, where=where, fix=fix)


def closest(name: str, known: Iterable[str], similarity: float = 0.6) -> str | None:
    """Returns the known name that is most similar to a misspelt one; upper and lower case are the same."""
    folded = {one.upper(): one for one in known}
    found = get_close_matches(name.upper(), folded, 1, similarity)
    return folded[found[0]] if found else None


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """Returns the fix for an unknown name: the known name that is most similar, or else the given sentence."""
    near = closest(name, known)
    return otherwise if near is None else f'did you mean "{near}"?'


class UserError(HeadraceError):
    """The request is invalid; repeating it unchanged fails again."""


class StatementError(UserError):
    """A statement is rejected; `span` is the position in its text, from which `located` sets `where` and `excerpt`.

    The code that finds the error knows the span; a caller that has the whole text calls `located`. `others` are further
    errors in the same statement, found by the same check.
    """

    def __init__(
        self, what: str, *, span: Span | None = None, where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.span = span
        self.excerpt: str | None = None
        self.others: tuple[StatementError, ...] = ()

    def located(self, text: str, name: str | None = None) -> Self:
        """Set `where` and the underlined line from the text that the span refers to; returns the same error."""
        if self.span is not None:
            self.where = place(self.span, name)
            self.excerpt = underlined(text, self.span)
        for other in self.others:
            other.located(text, name)
        return self

    def __str__(self) -> str:
        first, *rest = super().__str__().split("\n  fix: ", 1)
        shown = [f"    {line}" for line in (self.excerpt or "").splitlines()]
        return "\n".join([first, *shown, *(f"  fix: {fix}" for fix in rest)])

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"span": self.span, "excerpt": self.excerpt, "others": self.others})


class Retry(HeadraceError):
    """A transient failure outside the request; the same request may succeed later."""


class Stop(HeadraceError):
    """Continuing would damage data, or cannot succeed until a person acts."""


# -- topics, records, schemas ---------------------------------------------------------------------------------------


class UnknownTopic(UserError, code="unknown-topic"):
    """The named topic does not exist."""


class TopicExists(UserError, code="topic-exists"):
    """A topic of that name already exists."""


class TopicInUse(UserError, code="topic-in-use"):
    """Streams, tables or queries use the topic."""


class BadTopicName(UserError, code="bad-topic-name"):
    """A topic name is 1 to 249 letters, digits, dots, dashes and underscores."""


class BadTopicOption(UserError, code="bad-topic-option"):
    """A topic option has an invalid value, or options contradict each other."""


class UnknownPartition(UserError, code="unknown-partition"):
    """The topic has no partition of that number."""


class PartitionConflict(UserError, code="partition-conflict"):
    """A record with a key names a partition other than the one its key belongs to."""


class RecordTooLarge(UserError, code="record-too-large"):
    """A record is larger than the topic's max_record_bytes."""


class WrongType(UserError, code="wrong-type"):
    """A value does not fit its column's type in the topic's schema."""


class BadSchema(UserError, code="bad-schema"):
    """A schema text or definition is invalid."""


class IncompatibleSchema(UserError, code="incompatible-schema"):
    """A schema change would make existing records unreadable."""


class QuotaExceeded(UserError, code="quota-exceeded"):
    """An append would take the topic above its disk quota."""


class BadRecord(UserError, code="bad-record"):
    """Bytes cannot be decoded as a record in the topic's format."""


# -- reading --------------------------------------------------------------------------------------------------------


class OffsetOutOfRange(UserError, code="offset-out-of-range"):
    """An offset lies before the first or after the last record in the partition."""


class OffsetLost(Stop, code="offset-lost"):
    """Retention removed a consumer's next record before the consumer read it."""


class BadFilter(StatementError, code="bad-filter"):
    """A condition on the rows of a topic, or a pattern of topic names, is invalid."""


# -- groups, queues, writers ----------------------------------------------------------------------------------------


class UnknownGroup(UserError, code="unknown-group"):
    """The named consumer group does not exist."""


class GroupNotEmpty(UserError, code="group-not-empty"):
    """The group has active members, so its offsets cannot be reset."""


class GroupFenced(Retry, code="group-fenced"):
    """The group was rebalanced: this member no longer owns the partition that it tried to commit."""


class UnknownQueue(UserError, code="unknown-queue"):
    """No consumer has taken records from a queue of that name on that topic yet."""


class UnknownReceipt(UserError, code="unknown-receipt"):
    """The receipt is not valid: it was acknowledged, it expired, or it was never issued."""


class WriterFenced(Stop, code="writer-fenced"):
    """Another process opened the same writer; this one must stop writing."""


class Closed(UserError, code="closed"):
    """The log, producer or consumer is closed and cannot be used."""


# -- storage --------------------------------------------------------------------------------------------------------


class DamagedExtent(Stop, code="damaged-extent"):
    """Stored bytes do not match their checksum."""


class DiskFull(Retry, code="disk-full"):
    """There is no space left on the device; nothing of the append was stored."""


class ReadOnly(Stop, code="read-only"):
    """The data folder cannot be written."""


class AccessDenied(UserError, code="permission-denied"):
    """The operating system denies access to a file or folder."""


class SystemFailed(Stop, code="system-error"):
    """The operating system reports an error."""


class InternalError(Stop, code="internal-error"):
    """An error in headrace itself; the details are in the file that the error names."""


class NewerFormat(Stop, code="newer-format"):
    """A later version of headrace wrote the data folder."""


class NotADataFolder(UserError, code="not-a-data-folder"):
    """The folder contains something other than a headrace log."""


class LogBusy(Retry, code="log-busy"):
    """Another process held the log's write lock for too long."""


class BackupFailed(UserError, code="backup-failed"):
    """A backup or restore cannot be done as requested."""


# -- Kafka ----------------------------------------------------------------------------------------------------------


class BrokerUnreachable(Retry, code="broker-unreachable"):
    """No Kafka broker answered in time."""


class BrokerRefused(Stop, code="broker-refused"):
    """Kafka refused a request."""


class KafkaNotInstalled(UserError, code="kafka-not-installed"):
    """A jar or library that Kafka needs is missing."""


class NotOnThisLog(UserError, code="not-on-this-log"):
    """This kind of log (embedded or Kafka) does not support the operation."""


# -- formats of payloads --------------------------------------------------------------------------------------------


class UnknownFormat(StatementError, code="unknown-format"):
    """No format of that name is installed."""


class FormatUnsupported(StatementError, code="format-unsupported"):
    """A format does not support columns of these types, or that many of them."""


class BadFormatOption(StatementError, code="bad-format-option"):
    """A format does not have the option, or the option cannot have that value."""


class UnknownSchema(UserError, code="unknown-schema"):
    """The schema registry has no schema of that id or subject."""


# -- the schema registry --------------------------------------------------------------------------------------------


class UnknownSubject(UnknownSchema, code="unknown-subject"):
    """The schema registry has no subject of that name."""


class UnknownVersion(UnknownSchema, code="unknown-version"):
    """The subject has no version of that number."""


class BadVersion(UserError, code="bad-version"):
    """A version must be a number of at least 1, or "latest"."""


class AlreadySoftDeleted(UserError, code="already-soft-deleted"):
    """The subject or version is already soft-deleted; it can only be deleted permanently."""


class NotSoftDeleted(UserError, code="not-soft-deleted"):
    """A subject or version must be soft-deleted before it is deleted permanently."""


class BadCompatibility(UserError, code="bad-compatibility"):
    """The compatibility level does not exist."""


class BadMode(UserError, code="bad-mode"):
    """The registry mode does not exist."""


class RegistryReadOnly(UserError, code="registry-read-only"):
    """The registry, or the subject, is in mode READONLY."""


class NotConfigured(UserError, code="not-configured"):
    """The subject has no configuration; the registry's applies to it."""


class RegistryUnreachable(Retry, code="registry-unreachable"):
    """The schema registry did not respond, or cannot serve the request now."""


class RegistryRefused(UserError, code="registry-refused"):
    """The schema registry refused a request, or its response is not that of a schema registry."""


# -- servers, seen by clients ---------------------------------------------------------------------------------------


class ServerNotRunning(UserError, code="server-not-running"):
    """No server runs on the data folder."""


class ServerUnreachable(Retry, code="server-unreachable"):
    """No server responds at the address, or a server did not stop in time."""


class ConnectionLost(Retry, code="connection-lost"):
    """The connection to a server broke during a response, so it is not known what the server did."""


class ServerRefused(UserError, code="server-refused"):
    """A server refused a request with a message of its own."""


class ServerFailed(Stop, code="server-failed"):
    """A server failed to process a request, or its response is not that of a headrace server."""


class BadShellCommand(UserError, code="bad-shell-command"):
    """A shell command is unknown, or its syntax is wrong."""


# -- settings, processes, servers, views ----------------------------------------------------------------------------


class BadSetting(UserError, code="bad-setting"):
    """A setting is unknown or its value is invalid."""


class UnknownDialect(UserError, code="unknown-dialect"):
    """No dialect of that name is installed."""


class UnknownComponent(UserError, code="unknown-component"):
    """No component of that kind and name is installed."""


class BadOption(UserError, code="bad-option"):
    """A component's option is unknown, missing or has an invalid value."""


class MissingDependency(UserError, code="missing-dependency"):
    """A program or library that this feature needs is not installed."""


class PortInUse(UserError, code="port-in-use"):
    """Another process listens on the port."""


class QueryFailed(Stop, code="query-failed"):
    """A streaming query stopped with an error."""


class ProcessLost(Retry, code="process-lost"):
    """A query's worker process died, or did not start in time."""


class OutOfMemory(ProcessLost, code="out-of-memory"):
    """A query's worker process died because it ran out of memory."""


class StateUnreadable(Stop, code="state-unreadable"):
    """Another version of headrace wrote the query's state, or the state is damaged."""


class ViewUnreadable(Stop, code="view-unreadable"):
    """Another version of headrace wrote the view, it is damaged, or another server replaced or removed it."""


class ViewLagging(Retry, code="view-lagging"):
    """A view did not reach the requested position within the timeout."""


class DatabaseUnreachable(Retry, code="database-unreachable"):
    """The views' database does not respond, or cannot serve the request now."""


class DatabaseRefused(Stop, code="database-refused"):
    """The views' database refuses the user or denies a privilege, or its encoding is not UTF-8."""


class PlanChanged(UserError, code="plan-changed"):
    """A query is not compatible with the checkpoint that it would resume from."""


class ProgramRunning(UserError, code="program-running"):
    """A program of that name is already running on the same data folder."""


class BadRequest(UserError, code="bad-request"):
    """A request to a server is malformed."""


class UnknownCommand(UserError, code="unknown-command"):
    """The server does not know a command of that id."""


class SlowConsumer(UserError, code="slow-consumer"):
    """A client of a push query does not read its rows fast enough."""


class BodyTooLarge(BadRequest, code="body-too-large"):
    """The body of a request exceeds the server's limit."""


class UnknownContentType(BadRequest, code="unknown-content-type"):
    """The endpoint does not support the content type of the request, or the one requested for the response."""


class UnknownPath(BadRequest, code="unknown-path"):
    """The server has no endpoint at that path, or not for that method."""


class ForeignOrigin(BadRequest, code="foreign-origin"):
    """A web page from another origin sent the request."""


class BadPositionToken(BadRequest, code="bad-position-token"):
    """A position token does not contain valid positions in topics."""


class SequenceGap(UserError, code="sequence-gap"):
    """A producer's sequence numbers must be consecutive: a skipped number would later be taken for a repeat."""


class TooManyReaders(Retry, code="too-many-readers"):
    """The server has reached its limit of live readers."""


class ServerBusy(Retry, code="server-busy"):
    """The server holds as many bytes of requests as it can at once."""


class UnknownView(UserError, code="unknown-view"):
    """There is no materialized table of that name."""


class UnknownDashboard(UserError, code="unknown-dashboard"):
    """There is no saved dashboard of that name."""


class UnknownDeadLetter(UserError, code="unknown-dead-letter"):
    """There is no dead letter at that offset."""


class DeadLetterResolved(UserError, code="dead-letter-resolved"):
    """The dead letter was already replayed or discarded."""


class NotReplayable(UserError, code="not-replayable"):
    """A dead letter does not name its original record, or that record was removed."""


class UnknownApp(UserError, code="unknown-app"):
    """No app of that name is deployed on the server."""


class AppInUse(UserError, code="app-in-use"):
    """Queries call functions or operators that the app declares."""


class CodeRefused(UserError, code="code-refused"):
    """The server does not accept code from that client."""


class UnknownQuery(UserError, code="unknown-query"):
    """There is no query of that name, or no checkpoint of it."""


class NotVerifiable(UserError, code="not-verifiable"):
    """The results of a query cannot be compared with a later recomputation."""


class InputGone(UserError, code="input-gone"):
    """Records that a query has read or written were removed, so its results cannot be recomputed."""


class PatternTooSlow(UserError, code="pattern-too-slow"):
    """A regular expression backtracked for longer than the time limit of a record."""


class ResultTooLong(UserError, code="result-too-long"):
    """A function would return a string or a list that is too large."""


class QueryTimeLimitExceeded(UserError, code="query-time-limit-exceeded"):
    """A query took more time than the limit allows."""


class TooManyRows(UserError, code="too-many-rows"):
    """A query result has more rows than the settings allow."""


class TooManyStatements(UserError, code="too-many-statements"):
    """A request to the server has more statements than are allowed at once."""


class UnknownSecret(UserError, code="unknown-secret"):
    """A secret that is referred to does not exist."""


class BadSecret(UserError, code="bad-secret"):
    """The name or the content of a secret is not allowed."""


class TooManyConnections(Retry, code="too-many-connections"):
    """A server has as many connections as the settings allow, in total or from one address."""


# -- KSQL -----------------------------------------------------------------------------------------------------------


class KsqlSyntaxError(StatementError, code="syntax-error"):
    """The text is not a KSQL statement."""


class ColumnNotFound(StatementError, code="column-not-found"):
    """No source of the query has a column of that name."""


class AmbiguousColumn(StatementError, code="ambiguous-column"):
    """Several sources of the query have a column of that name."""


class SourceNotFound(StatementError, code="source-not-found"):
    """No stream or table of that name exists."""


class SourceExists(StatementError, code="source-exists"):
    """A stream or table of that name already exists."""


class WrongKind(StatementError, code="wrong-kind"):
    """The statement requires a stream but names a table, or the reverse."""


class SourceInUse(StatementError, code="source-in-use"):
    """Queries still read or write the stream or table."""


class SourceReadOnly(StatementError, code="source-read-only"):
    """A SOURCE stream or table cannot be written, changed or replaced."""


class TypeMismatch(StatementError, code="type-mismatch"):
    """Values of these types cannot be combined in this way."""


class BadType(StatementError, code="bad-type"):
    """The type does not exist, or cannot be used in this place."""


class BadLiteral(StatementError, code="bad-literal"):
    """A literal in the statement cannot be parsed as the required type."""


class BadProperty(StatementError, code="bad-property"):
    """A property of a WITH clause is unknown, missing, contradicts another or has an invalid value."""


class BadName(StatementError, code="bad-name"):
    """The name is reserved, or used twice."""


class BadKey(StatementError, code="bad-key"):
    """The result's key is missing from the projection, appears twice, or cannot be a key."""


class BadGrouping(StatementError, code="bad-grouping"):
    """GROUP BY, HAVING or an aggregate function is used where it is not valid."""


class BadJoin(StatementError, code="bad-join"):
    """The sources cannot be joined in this way."""


class BadWindow(StatementError, code="bad-window"):
    """A window, or its bounds, is used where it is not valid."""


class SchemaMismatch(StatementError, code="schema-mismatch"):
    """The query's columns do not match those of the stream that it writes to."""


class BadReplacement(StatementError, code="bad-replacement"):
    """The new definition cannot replace the existing source or query."""


class BadQuery(StatementError, code="bad-query"):
    """The clauses of the query cannot be combined."""


class NotQueryable(StatementError, code="not-queryable"):
    """The table is not materialized, so pull queries cannot read it."""


class FunctionExists(UserError, code="function-exists"):
    """A user-defined function has the name of a built-in function, or of another app's function."""


class BadPython(UserError, code="bad-python"):
    """Python code of an app is invalid, or a call of the Python API has an invalid argument."""


class Unsupported(StatementError, code="unsupported"):
    """KSQL allows it, but headrace does not support it yet."""


class UnknownFunction(StatementError, code="unknown-function"):
    """No function has that name."""


class WrongArguments(StatementError, code="wrong-arguments"):
    """No signature of the function accepts these arguments."""


class AmbiguousCall(StatementError, code="ambiguous-call"):
    """Several signatures of the function match the arguments equally well."""


class BadScript(StatementError, code="bad-script"):
    """A script cannot be read, or includes itself by RUN SCRIPT."""


class BadDatetimePattern(StatementError, code="bad-datetime-pattern"):
    """A date and time pattern is invalid."""


# -- in-memory tests ------------------------------------------------------------------------------------------------


class AssertFailed(StatementError, code="assert-failed"):
    """An ASSERT statement failed."""


class BadTestCases(UserError, code="bad-test-cases"):
    """A file of test cases is invalid."""


class ResultDiffers(UserError, code="result-differs"):
    """The result of a test case differs from the expected one."""


# -- alerts ---------------------------------------------------------------------------------------------------------


class BadAlert(StatementError, code="bad-alert"):
    """The rule of an alert is invalid."""


class UnknownAlert(StatementError, code="unknown-alert"):
    """The named alert does not exist."""


class AlertExists(StatementError, code="alert-exists"):
    """An alert of that name already exists."""


class UnknownNotifier(StatementError, code="unknown-notifier"):
    """The named notifier does not exist."""


class NotifierExists(StatementError, code="notifier-exists"):
    """A notifier of that name already exists."""


class NotifierInUse(StatementError, code="notifier-in-use"):
    """Alerts use the notifier."""


class NotDelivered(Retry, code="not-delivered"):
    """A message was not delivered; a retry may succeed."""


class DeliveryRefused(UserError, code="delivery-refused"):
    """A message cannot be sent, or is rejected; a retry does not help."""


# -- access ---------------------------------------------------------------------------------------------------------


class NotAuthenticated(UserError, code="not-authenticated"):
    """The request has no credentials, or they are wrong, expired or revoked."""


class NotAllowed(UserError, code="not-allowed"):
    """The principal lacks the privilege for this."""


class RowsHidden(NotAllowed, code="rows-hidden"):
    """The principal may read only some of the rows, and this needs all of them."""


class BadRowFilter(UserError, code="bad-row-filter"):
    """A row filter does not fit the stream or table, so no rows are returned."""


class LoginThrottled(UserError, code="login-throttled"):
    """There were too many wrong passwords; try again after a while."""

    seconds: float = 1.0


class CsrfMissing(UserError, code="csrf-missing"):
    """A request with a session cookie that changes something lacks the session's CSRF token."""


class BadGrant(UserError, code="bad-grant"):
    """A grant names something that cannot be granted."""


class BadUserName(UserError, code="bad-user-name"):
    """The name is not valid for a user or role."""


class WeakPassword(UserError, code="weak-password"):
    """The password is too short, or too long."""


class UserExists(UserError, code="user-exists"):
    """A user of that name already exists."""


class UnknownUser(UserError, code="unknown-user"):
    """The user does not exist."""


class UnknownRole(UserError, code="unknown-role"):
    """The role does not exist."""


class BadAccessToken(UserError, code="bad-access-token"):
    """A token cannot be created or revoked as requested."""


class PublicBind(UserError, code="public-bind"):
    """A server that other machines can reach must have TLS, authentication and an admin."""


class AuditBroken(Stop, code="audit-broken"):
    """An entry of the audit log was changed, removed or inserted."""
