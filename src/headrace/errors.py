"""Every failure a person can cause or must act on, each with a stable code.

An error carries a *code* (kebab-case, never reused), *what* happened (kind and quoted name), *where*
(file:line:col, query and option, or partition and offset) and a *fix* (one sentence to act on).
Operational failures also say what a supervisor should do: `Retry` or `Stop`.

    HeadraceError
    |-- UserError                 the caller asked for something that cannot be done
    |   `-- StatementError        ... in a statement, and it is known where in its text
    |-- Retry                     may pass by itself: try again with back-off
    `-- Stop                      will not pass by itself: a person must act
"""

from __future__ import annotations

from typing import ClassVar, Self

from headrace.span import Span, place, underlined

CODES: dict[str, type[HeadraceError]] = {}


class HeadraceError(Exception):
    """Root of all headrace errors."""

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
        # Errors cross process borders (Spark workers, bench peers), so keyword fields must survive pickling.
        return (_rebuild, (type(self), self.what, self.where, self.fix))

    def as_dict(self) -> dict[str, str | None]:
        """The one JSON shape of an error."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}


def _rebuild(cls: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return cls(what, where=where, fix=fix)


class UserError(HeadraceError):
    """The request is wrong; repeating it unchanged fails again."""


class StatementError(UserError):
    """A statement is refused; `span` is the place in its text, which `located` turns into words.

    Whoever finds the fault knows the span; whoever has the whole text calls `located` on the way out. `others` are
    further faults of the same statement, found at the same look.
    """

    def __init__(
        self, what: str, *, span: Span | None = None, where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.span = span
        self.excerpt: str | None = None
        self.others: tuple[StatementError, ...] = ()

    def located(self, text: str, name: str | None = None) -> Self:
        """The same error, with `where` and the underlined line of the text that the span counts in."""
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
    """The surroundings failed; the same request may succeed later."""


class Stop(HeadraceError):
    """Going on would harm data, or cannot succeed until a person acts."""


# -- topics, records, schemas ---------------------------------------------------------------------------------------


class UnknownTopic(UserError, code="unknown-topic"):
    """The named topic does not exist."""


class TopicExists(UserError, code="topic-exists"):
    """A topic of that name exists already."""


class TopicInUse(UserError, code="topic-in-use"):
    """Streams, tables or queries stand on the topic."""


class BadTopicName(UserError, code="bad-topic-name"):
    """A topic name is 1 to 249 letters, digits, dots, dashes and underscores."""


class BadTopicOption(UserError, code="bad-topic-option"):
    """A topic option has a value that is not possible, or options contradict each other."""


class UnknownPartition(UserError, code="unknown-partition"):
    """The topic has fewer partitions than the one that was named."""


class PartitionConflict(UserError, code="partition-conflict"):
    """A keyed record names a partition other than the one its key belongs to."""


class RecordTooLarge(UserError, code="record-too-large"):
    """A record is larger than the topic's max_record_bytes."""


class WrongType(UserError, code="wrong-type"):
    """A value does not fit the type its column has in the topic's schema."""


class BadSchema(UserError, code="bad-schema"):
    """A schema text or definition cannot be understood."""


class IncompatibleSchema(UserError, code="incompatible-schema"):
    """A schema change would make records that exist unreadable."""


class QuotaExceeded(UserError, code="quota-exceeded"):
    """An append would take the topic above its disk quota."""


class BadRecord(UserError, code="bad-record"):
    """Bytes could not be read as a record of the topic's format."""


# -- reading --------------------------------------------------------------------------------------------------------


class OffsetOutOfRange(UserError, code="offset-out-of-range"):
    """An offset lies before the first or after the last record that the partition holds."""


class OffsetLost(Stop, code="offset-lost"):
    """A consumer's next record was removed by retention before the consumer read it."""


class BadFilter(UserError, code="bad-filter"):
    """A content filter cannot be understood, or uses something that is not allowed."""


# -- groups, queues, writers ----------------------------------------------------------------------------------------


class UnknownGroup(UserError, code="unknown-group"):
    """The named consumer group does not exist."""


class GroupBusy(UserError, code="group-busy"):
    """The group has live members, so its offsets cannot be changed from outside."""


class GroupFenced(Retry, code="group-fenced"):
    """The group was rebalanced: this member no longer owns what it tried to commit."""


class UnknownQueue(UserError, code="unknown-queue"):
    """Nobody has taken from a queue of that name on that topic yet."""


class UnknownReceipt(UserError, code="unknown-receipt"):
    """The receipt is not held: it was acknowledged, its time ran out, or it never was given."""


class WriterFenced(Stop, code="writer-fenced"):
    """Another process opened the same writer; this one must not write any more."""


class Closed(UserError, code="closed"):
    """The log, producer or consumer was closed and cannot be used any more."""


# -- storage --------------------------------------------------------------------------------------------------------


class DamagedExtent(Stop, code="damaged-extent"):
    """Stored bytes do not match their checksum."""


class DiskFull(Retry, code="disk-full"):
    """There is no space left on the device; nothing of the append was kept."""


class ReadOnly(Stop, code="read-only"):
    """The data folder cannot be written."""


class NewerFormat(Stop, code="newer-format"):
    """The data folder was written by a later version of headrace."""


class NotADataFolder(UserError, code="not-a-data-folder"):
    """The folder holds other things than a headrace log."""


class LogBusy(Retry, code="log-busy"):
    """Another process held the log's write lock for too long."""


class BackupFailed(UserError, code="backup-failed"):
    """A backup or restore cannot be done as asked."""


# -- Kafka ----------------------------------------------------------------------------------------------------------


class BrokerUnreachable(Retry, code="broker-unreachable"):
    """No Kafka broker answered in time."""


class BrokerRefused(Stop, code="broker-refused"):
    """Kafka refused a request."""


class KafkaNotInstalled(UserError, code="kafka-not-installed"):
    """A jar or library that Kafka needs is missing."""


class NotOnThisLog(UserError, code="not-on-this-log"):
    """The operation belongs to the other kind of log."""


# -- formats of payloads --------------------------------------------------------------------------------------------


class UnknownFormat(StatementError, code="unknown-format"):
    """No format of that name is installed."""


class FormatRefused(StatementError, code="format-unsupported"):
    """A format cannot hold columns of these types, or so many of them."""


class BadFormatOption(StatementError, code="bad-format-option"):
    """A format does not know the option, or the option cannot have that value."""


class UnknownSchema(UserError, code="unknown-schema"):
    """The schema registry holds no schema of that id or subject."""


# -- the schema registry --------------------------------------------------------------------------------------------


class UnknownSubject(UnknownSchema, code="unknown-subject"):
    """The schema registry has no subject of that name."""


class UnknownVersion(UnknownSchema, code="unknown-version"):
    """The subject has no version of that number."""


class BadVersion(UserError, code="bad-version"):
    """A version is a number from 1 on, or "latest"."""


class DeletedBefore(UserError, code="deleted-before"):
    """The subject or version is deleted already; only a permanent deletion can follow."""


class NotDeletedYet(UserError, code="not-deleted-yet"):
    """A permanent deletion must follow an ordinary one."""


class BadCompatibility(UserError, code="bad-compatibility"):
    """There is no such level of compatibility."""


class BadMode(UserError, code="bad-mode"):
    """A registry has no such mode."""


class RegistryReadOnly(UserError, code="registry-read-only"):
    """The registry, or the subject, is in the mode READONLY."""


class NotConfigured(UserError, code="not-configured"):
    """The subject has no setting of its own; the registry's holds for it."""


class RegistryUnreachable(Retry, code="registry-unreachable"):
    """The schema registry did not answer, or could not serve the request now."""


class RegistryRefused(UserError, code="registry-refused"):
    """The schema registry refused a request, or answered with something else than a registry does."""


# -- servers, seen from outside -------------------------------------------------------------------------------------


class NoServer(UserError, code="no-server"):
    """No server runs on the data folder."""


class ServerUnreachable(Retry, code="server-unreachable"):
    """No server answers at the address, or one does not end that was told to."""


class ConnectionLost(Retry, code="connection-lost"):
    """A server went away in the middle of an answer, so it is not known what was done."""


class ServerRefused(UserError, code="server-refused"):
    """A server refuses a request in words of its own."""


class ServerFailed(Stop, code="server-failed"):
    """A server failed at a request, or answers what no such server answers."""


class BadShellCommand(UserError, code="bad-shell-command"):
    """A command of the shell is unknown, or is not written as it must be."""


# -- surroundings ---------------------------------------------------------------------------------------------------


class BadSetting(UserError, code="bad-setting"):
    """A setting is unknown or its value cannot be understood."""


class UnknownComponent(UserError, code="unknown-component"):
    """No component of that kind and name is installed."""


class BadOption(UserError, code="bad-option"):
    """A component's option is unknown, missing or has a wrong value."""


class MissingPart(UserError, code="missing-part"):
    """A program or library that this feature needs is not installed."""


class PortTaken(UserError, code="port-taken"):
    """Another process listens on the port."""


class QueryFailed(Stop, code="query-failed"):
    """A streaming query ended with an error."""


class ProcessLost(Retry, code="process-lost"):
    """A process that worked for a query has died, or did not come up in time."""


class OutOfMemory(ProcessLost, code="out-of-memory"):
    """A process that worked for a query has died because it had not enough memory."""


class StateUnreadable(Stop, code="state-unreadable"):
    """A query's state was written by another version, or is damaged."""


class ViewUnreadable(Stop, code="view-unreadable"):
    """A view was written by another version, is damaged, or is kept as another table by somebody else."""


class ViewBehind(Retry, code="view-behind"):
    """A view has not come as far as it was asked to, within the time that was given."""


class DatabaseUnreachable(Retry, code="database-unreachable"):
    """The database of the views does not answer, or cannot serve the request now."""


class DatabaseRefused(Stop, code="database-refused"):
    """The database of the views refuses the user, or what the user needs."""


class PlanChanged(UserError, code="plan-changed"):
    """A query does not fit the checkpoint that it would go on from."""


class ProgramRunning(UserError, code="program-running"):
    """A program of that name is running on the same data."""


class BadRequest(UserError, code="bad-request"):
    """A request to a server is not what it must be."""


class UnknownCommand(UserError, code="unknown-command"):
    """A server is asked about a command that it does not know."""


class SlowReader(UserError, code="slow-reader"):
    """Somebody who asked does not read what comes fast enough."""


class BodyTooLarge(BadRequest, code="body-too-large"):
    """The body of a request is larger than a server takes."""


class UnknownContentType(BadRequest, code="unknown-content-type"):
    """The body of a request, or the answer that it wants, has a form that is not known in that place."""


class UnknownPath(BadRequest, code="unknown-path"):
    """A server has nothing at that path, or not for that method."""


class ForeignOrigin(BadRequest, code="foreign-origin"):
    """A web page of another server has sent the request."""


class BadToken(BadRequest, code="bad-token"):
    """A text that should name positions in topics does not."""


class SequenceGap(UserError, code="sequence-gap"):
    """A producer's numbers must follow each other: what lies between would be taken for a repeat later."""


class TooManyReaders(Retry, code="too-many-readers"):
    """As many read from the server live as it allows."""


class ServerBusy(Retry, code="server-busy"):
    """A server has as much to do as it takes at once."""


class UnknownView(UserError, code="unknown-view"):
    """There is no table of that name that can be asked."""


class UnknownBoard(UserError, code="unknown-board"):
    """No dashboard of that name was saved."""


class UnknownLetter(UserError, code="unknown-letter"):
    """There is no dead letter at that place."""


class LetterSettled(UserError, code="letter-settled"):
    """The dead letter was replayed or discarded before."""


class NotReplayable(UserError, code="not-replayable"):
    """A dead letter does not say which record it is of, or that record is gone."""


class UnknownApp(UserError, code="unknown-app"):
    """No app of that name is on the server."""


class AppInUse(UserError, code="app-in-use"):
    """Queries call what the app declares."""


class CodeRefused(UserError, code="code-refused"):
    """The server takes no code from there."""


class UnknownQuery(UserError, code="unknown-query"):
    """No query of that name has left a checkpoint."""


class NotVerifiable(UserError, code="not-verifiable"):
    """What a query writes cannot be held against an answer that is computed later."""


class InputGone(UserError, code="input-gone"):
    """Records that a query has read, or written, were removed, so that nobody can compute its results again."""


class PatternTooSlow(UserError, code="pattern-too-slow"):
    """A regular expression went back and forth for longer than a record is given."""


class ResultTooLong(UserError, code="result-too-long"):
    """A function would make a text or a list that is too large to hold."""


class TooLong(UserError, code="too-long"):
    """A question took more time than the settings allow."""


class TooManyRows(UserError, code="too-many-rows"):
    """An answer has more rows than the settings allow."""


class TooManyStatements(UserError, code="too-many-statements"):
    """A text for the server has more statements than are done at once."""


class UnknownSecret(UserError, code="unknown-secret"):
    """Where a secret is referred to, there is none."""


class BadSecret(UserError, code="bad-secret"):
    """A secret cannot be called or be like that."""


class TooManyConnections(Retry, code="too-many-connections"):
    """A server has as many connections as the settings allow, of all or with one address."""


# -- KSQL -----------------------------------------------------------------------------------------------------------


class KsqlSyntaxError(StatementError, code="syntax-error"):
    """The text is no KSQL statement."""


class ColumnNotFound(StatementError, code="column-not-found"):
    """No source of the query has a column of that name."""


class AmbiguousColumn(StatementError, code="ambiguous-column"):
    """Several sources of the query have a column of that name."""


class SourceNotFound(StatementError, code="source-not-found"):
    """There is no stream or table of that name."""


class SourceExists(StatementError, code="source-exists"):
    """A stream or table of that name exists already."""


class WrongKind(StatementError, code="wrong-kind"):
    """The statement needs a stream where a table is, or a table where a stream is."""


class SourceInUse(StatementError, code="source-in-use"):
    """Queries still read or write the stream or table."""


class SourceReadOnly(StatementError, code="source-read-only"):
    """A SOURCE stream or table cannot be written, changed or replaced."""


class TypeMismatch(StatementError, code="type-mismatch"):
    """Values of these types cannot be combined so."""


class BadType(StatementError, code="bad-type"):
    """The type does not exist, or cannot be used in this place."""


class BadLiteral(StatementError, code="bad-literal"):
    """A value written in the statement cannot be read as the type it must have."""


class BadProperty(StatementError, code="bad-property"):
    """A property of a WITH clause is unknown, missing, contradicts another or has an impossible value."""


class BadName(StatementError, code="bad-name"):
    """The name is reserved, or used twice."""


class BadKey(StatementError, code="bad-key"):
    """The result's key is missing from the projection, is there twice, or cannot be a key."""


class BadGrouping(StatementError, code="bad-grouping"):
    """GROUP BY, HAVING or an aggregate function is used in a way that has no meaning."""


class BadJoin(StatementError, code="bad-join"):
    """The sources cannot be joined in this way."""


class BadWindow(StatementError, code="bad-window"):
    """A window, or its bounds, is used where it has no meaning."""


class SchemaMismatch(StatementError, code="schema-mismatch"):
    """The query's columns are not those of the stream it is to write to."""


class BadReplacement(StatementError, code="bad-replacement"):
    """A source or query cannot be changed into this one."""


class BadQuery(StatementError, code="bad-query"):
    """The clauses of the query do not go together."""


class NotQueryable(StatementError, code="not-queryable"):
    """The rows of the table are not kept, so it cannot be asked."""


class FunctionExists(UserError, code="function-exists"):
    """A function of one's own has the name of a built-in one, or of another app's."""


class BadPython(UserError, code="bad-python"):
    """A call of the Python API has an argument with which nothing can be done."""


class Unsupported(StatementError, code="unsupported"):
    """KSQL allows it, headrace does not do it yet."""


class UnknownFunction(StatementError, code="unknown-function"):
    """No function has that name."""


class WrongArguments(StatementError, code="wrong-arguments"):
    """A function is called with arguments that none of its forms takes."""


class AmbiguousCall(StatementError, code="ambiguous-call"):
    """A function is called so that several of its forms fit equally well."""


class BadScript(StatementError, code="bad-script"):
    """A script cannot be read, or runs itself."""


class BadDatetimePattern(StatementError, code="bad-datetime-pattern"):
    """A pattern for dates and times cannot be read."""


# -- tests in memory ------------------------------------------------------------------------------------------------


class AssertFailed(StatementError, code="assert-failed"):
    """An ASSERT statement does not hold."""


class BadCases(UserError, code="bad-cases"):
    """A file of test cases cannot be understood."""


class ResultDiffers(UserError, code="result-differs"):
    """A test case came out another way than it expects."""


# -- alerts ---------------------------------------------------------------------------------------------------------


class BadAlert(StatementError, code="bad-alert"):
    """A rule of an alert is not one that can be followed."""


class UnknownAlert(StatementError, code="unknown-alert"):
    """The named alert does not exist."""


class AlertExists(StatementError, code="alert-exists"):
    """An alert of that name exists already."""


class UnknownNotifier(StatementError, code="unknown-notifier"):
    """The named notifier does not exist."""


class NotifierExists(StatementError, code="notifier-exists"):
    """A notifier of that name exists already."""


class NotifierInUse(StatementError, code="notifier-in-use"):
    """Alerts are sent by the notifier."""


class NotDelivered(Retry, code="not-delivered"):
    """A message did not get through, and may later."""


class DeliveryRefused(UserError, code="delivery-refused"):
    """A message cannot be sent, or is not taken, however often it is tried."""


# -- access ---------------------------------------------------------------------------------------------------------


class NotAuthenticated(UserError, code="not-authenticated"):
    """Nobody has said who asks, or what was shown does not count: wrong, expired, revoked."""


class NotAllowed(UserError, code="not-allowed"):
    """Whoever asks may not do this."""


class RowsHidden(NotAllowed, code="rows-hidden"):
    """Only some rows may be seen, and this would need all of them."""


class BadRowFilter(UserError, code="bad-row-filter"):
    """The condition under which somebody sees rows does not fit the stream or table, so none are shown."""


class TooManyTries(UserError, code="too-many-tries"):
    """Too many wrong passwords; the next one is looked at after a while."""

    seconds: float = 1.0


class CsrfMissing(UserError, code="csrf-missing"):
    """A request by cookie that changes something lacks the session's second token."""


class BadGrant(UserError, code="bad-grant"):
    """A grant says something that cannot be granted."""


class BadUserName(UserError, code="bad-user-name"):
    """The name cannot be that of a user or role."""


class WeakPassword(UserError, code="weak-password"):
    """The password is too short, or too long."""


class UserExists(UserError, code="user-exists"):
    """A user of that name exists already."""


class UnknownUser(UserError, code="unknown-user"):
    """There is no such user."""


class UnknownRole(UserError, code="unknown-role"):
    """There is no such role."""


class BadAccessToken(UserError, code="bad-access-token"):
    """A token cannot be made or revoked so."""


class PublicBind(UserError, code="public-bind"):
    """A server that others can reach must have TLS, authentication and an admin."""


class AuditBroken(Stop, code="audit-broken"):
    """An entry of the audit was changed, removed or put in."""
