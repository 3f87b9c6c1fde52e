"""Errors of running queries, their results and apps."""

from __future__ import annotations

from headrace.errors.base import Retry, Stop, UserError

# -- running queries --------------------------------------------------------------------------------------------------


class QueryFailed(Stop, code="query-failed"):
    """A streaming query stopped with an error."""


class UnexpectedFailure(Retry, code="unexpected-failure"):
    """A streaming query stopped with an error of Spark or of Python that may be transient."""


class ProcessLost(Retry, code="process-lost"):
    """A query's worker process died, or did not start in time."""


class PythonWorkerLost(ProcessLost, code="python-worker-lost"):
    """A Python worker of Spark's died while a query ran."""


class TaskFailed(UnexpectedFailure, code="task-failed"):
    """A task of a query failed with an error of Python."""


class RecordFailed(Stop, code="record-failed"):
    """A query fails whenever it processes a certain record."""


class RecordsKeepFailing(RecordFailed, code="records-keep-failing"):
    """Several records in a row made a query fail: probably something else does."""


class OutOfMemory(ProcessLost, code="out-of-memory"):
    """A query's worker process died because it ran out of memory."""


class SparkOutOfMemory(OutOfMemory, code="spark-out-of-memory"):
    """The Spark process that several queries share ran out of memory; any of them may be the cause."""


class StateUnreadable(Stop, code="state-unreadable"):
    """Another version of headrace wrote the query's state, or the state is damaged."""


class CheckpointMissing(Stop, code="checkpoint-missing"):
    """The output of a query holds rows of a checkpoint that is gone: a person must decide how it continues."""


class CheckpointOutdated(Stop, code="checkpoint-outdated"):
    """The output of a query holds rows of later batches than its checkpoint: it is an older copy."""


class CheckpointAhead(Stop, code="checkpoint-ahead"):
    """The checkpoint of a query has read further than the log reaches: the log is an older copy."""


class NotResumable(UserError, code="not-resumable"):
    """A query cannot continue after its output, or start over into it."""


class PlanChanged(UserError, code="plan-changed"):
    """A query is not compatible with the checkpoint that it would resume from."""


class ProgramRunning(UserError, code="program-running"):
    """A program of that name is already running on the same data folder."""


class UnknownQuery(UserError, code="unknown-query"):
    """There is no query of that name, or no checkpoint of it."""


class NotVerifiable(UserError, code="not-verifiable"):
    """The results of a query cannot be compared with a later recomputation."""


class InputGone(UserError, code="input-gone"):
    """Records that a query has read or written were removed, so its results cannot be recomputed."""


# -- limits -----------------------------------------------------------------------------------------------------------


class PatternTooSlow(UserError, code="pattern-too-slow"):
    """A regular expression backtracked for longer than the time limit of a record."""


class ResultTooLong(UserError, code="result-too-long"):
    """A function would return a string or a list that is too large."""


class QueryTimeLimitExceeded(UserError, code="query-time-limit-exceeded"):
    """A query took more time than the limit allows."""


class QueryEnded(UserError):
    """A pull or push query ends as a whole, in the middle of a row."""


class QueryTooLarge(QueryEnded, code="query-too-large"):
    """A pull query, or its result, takes more memory than the settings allow."""


class PullQueryKilled(QueryEnded, code="pull-query-killed"):
    """A heavy pull query needs more memory than the settings allow, or its process died."""


class QueryKilled(QueryEnded, code="query-killed"):
    """A running pull or push query was ended on request, or because its client disconnected."""


class UnknownProcess(UserError, code="unknown-process"):
    """There is no running pull or push query of that id, or none that the user may see."""


class TooManyRows(UserError, code="too-many-rows"):
    """A query result has more rows than the settings allow."""


# -- apps -------------------------------------------------------------------------------------------------------------


class UnknownApp(UserError, code="unknown-app"):
    """No app of that name is deployed on the server."""


class AppInUse(UserError, code="app-in-use"):
    """Queries call functions or operators that the app declares."""


class CodeRefused(UserError, code="code-refused"):
    """The server accepts no code: its setting `server.accept_code` is off."""
