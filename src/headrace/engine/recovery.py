"""Recognizes that a query's checkpoint is gone or outdated, and carries out what was decided about it.

A query that started over would write its results again after those that its output topic holds. So it is refused, until
a person decides (`headrace state recover`): to start over into an emptied output, or, without state, to continue after
what the output holds. A decision is a file next to the checkpoint, which the next start carries out. Each step may be
repeated after a crash, and the file is removed last.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest, cuts_topic, run_ids, ticks_topic, writer_name
from headrace.engine.io.written_output import WrittenOutput
from headrace.engine.log_adapter import LogAdapter
from headrace.errors import (
    CheckpointAhead,
    CheckpointMissing,
    CheckpointOutdated,
    NotResumable,
    StateUnreadable,
    UnknownTopic,
)
from headrace.log.embedded.storage.store import translate_errors
from headrace.plan.analysis.state_shape import state_shape
from headrace.plan.nodes import Query

REPROCESS, FROM_OUTPUT = "reprocess", "resume-from-output"
Start = Mapping[str, Any] | None
OpenCheckpoint = Callable[[Start], object]
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """How a query continues; `start` is the position that the output has, once that is known."""

    kind: str
    start: Start = None


class QueryRecovery:
    """The output of a query, compared with its checkpoint."""

    def __init__(self, log: Log, adapter: LogAdapter, query: Query, checkpoint: Checkpoint) -> None:
        self._log, self._adapter, self._query, self._checkpoint = log, adapter, query, checkpoint
        self._folder = folder = checkpoint.folder
        self._recover = f"headrace state recover {folder.parent.name}/{folder.name}"

    def prepare(self, open_checkpoint: OpenCheckpoint) -> None:
        """Carries out a decision; without one, raises if the checkpoint does not know what the query has written.

        `open_checkpoint` creates a new checkpoint that begins after a position.
        """
        decision = decision_of(self._folder)
        if decision is None:
            self._refuse_unknown_output()
            return
        self._reprocess() if decision.kind == REPROCESS else self._resume(decision, open_checkpoint)
        _decision_file(self._folder).unlink(missing_ok=True)

    # -- what the output holds --------------------------------------------------------------------------------------

    def _refuse_unknown_output(self) -> None:
        manifest = self._checkpoint.manifest
        if manifest is not None:
            self._checkpoint.check_readable()
        if manifest is None:
            if self._output_has_rows() and (lost := self._latest(None)) is not None:
                raise self._refusal(CheckpointMissing, lost, "its checkpoint is gone")
        elif (own := self._latest(manifest)) is not None and own.batch > (known := self._checkpoint.last_started()):
            raise self._refusal(CheckpointOutdated, own, f"its checkpoint ends at batch {known}")
        if manifest is not None and self._adapter.is_beyond_end(self._checkpoint.position() or {"sequence": 0}):
            raise CheckpointAhead(
                f"query {self._query.id} has read further than the log reaches: the log is an older copy",
                where=str(self._folder),
                fix=f"restore the log of that time; or start over: `{self._recover} --{REPROCESS}`",
            )

    def _latest(self, manifest: Manifest | None) -> WrittenOutput | None:
        """The last batch in the output: that of the checkpoint's run, or of runs whose checkpoint is nowhere."""
        ours = [one for one in self._adapter.written() if self._is_in_output(one)]
        if manifest is not None:
            return next((one for one in ours if one.run == manifest.run), None)
        known = run_ids(self._folder.parent.parent) if ours else set[str]()
        return max((one for one in ours if one.run not in known), key=_read_position, default=None)

    def _is_in_output(self, output: WrittenOutput) -> bool:
        if (output.query, output.topic) != (self._query.id, self._query.sink.topic):
            return False
        return self._log.topic(output.topic).created_at == output.created_at

    def _output_has_rows(self) -> bool:
        return any(bounds.end > bounds.start for bounds in self._log.bounds(self._query.sink.topic).values())

    def _refusal(
        self, kind: type[CheckpointMissing | CheckpointOutdated], lost: WrittenOutput, reason: str
    ) -> CheckpointMissing | CheckpointOutdated:
        resume = "" if state_shape(self._query) else f", or continue after it: `{self._recover} --{FROM_OUTPUT}`"
        return kind(
            f'topic "{lost.topic}" holds the results of query {lost.query} up to batch {lost.batch}, but {reason}',
            where=str(self._folder),
            fix=f"put the checkpoint back; or empty the topic and start over: `{self._recover} --{REPROCESS}`{resume}",
        )

    # -- decisions --------------------------------------------------------------------------------------------------

    def _reprocess(self) -> None:
        """Removes the checkpoint and empties the output; the query then starts over."""
        topic = self._query.sink.topic
        others = {one.query for one in self._adapter.written() if one.topic == topic} - {self._query.id}
        if others:
            raise NotResumable(
                f'topic "{topic}" also holds the results of {", ".join(sorted(others))}, and is not emptied',
                where=str(self._folder),
                fix="drop the query, and create it again with another topic",
            )
        lost = self._latest(self._readable_manifest())
        self._remove_checkpoint(lost)
        for partition, bounds in self._log.bounds(topic).items():
            if bounds.end > bounds.start:
                self._log.truncate(topic, partition, bounds.end)
        self._forget_runs()
        _logger.warning("query %s starts over into its emptied output, as decided", self._query.id)

    def _resume(self, decision: Decision, open_checkpoint: OpenCheckpoint) -> None:
        """Replaces the checkpoint by one that begins where the output ends."""
        start = decision.start
        manifest = self._readable_manifest()
        if start is None:
            self._fence(self._latest(manifest))  # what it writes from now on would come again
            lost = self._latest(manifest)
            start = self._end_of_output(lost)
            decide(self._folder, Decision(FROM_OUTPUT, start))  # the next step forgets it
            self._remove_checkpoint(lost)
        elif manifest is not None and manifest.start != start:
            self._remove_checkpoint(self._latest(manifest))
        open_checkpoint(start)
        self._forget_runs()
        _logger.warning("query %s continues after its output, as decided", self._query.id)

    def _end_of_output(self, lost: WrittenOutput | None) -> Mapping[str, Any]:
        if state_shape(self._query):
            raise self._not_resumable("it has state, which its output does not contain")
        if lost is None or lost.position is None:
            raise self._not_resumable("it is not known up to where its output was written")
        return {name: value for name, value in lost.position.items() if name != ticks_topic(lost.run)}

    def _not_resumable(self, reason: str) -> NotResumable:
        return NotResumable(
            f"query {self._query.id} cannot continue after its output: {reason}",
            where=str(self._folder),
            fix=f"decide for --{REPROCESS}",
        )

    def _readable_manifest(self) -> Manifest | None:
        with suppress(StateUnreadable):
            return self._checkpoint.manifest
        return None

    def _remove_checkpoint(self, lost: WrittenOutput | None) -> None:
        """Removes the checkpoint. A process that still runs it can no longer write."""
        self._fence(lost)
        with translate_errors(self._folder):
            self._checkpoint.remove(self._delete_internal_topics)
        if lost is not None:
            self._delete_internal_topics(lost.run)

    def _fence(self, lost: WrittenOutput | None) -> None:
        if lost is not None:
            self._log.writer(writer_name(lost.run)).close()

    def _delete_internal_topics(self, run: str) -> None:
        for topic in (ticks_topic(run), cuts_topic(run)):
            with suppress(UnknownTopic):
                self._log.delete_topic(topic)

    def _forget_runs(self) -> None:
        known = run_ids(self._folder.parent.parent)
        for one in self._adapter.written():
            if self._is_in_output(one) and one.run not in known:
                self._adapter.forget_written(one.run)


def _read_position(output: WrittenOutput) -> tuple[int, int]:
    """Orders the runs of a query by what they have read: a sequence, or on Kafka the offsets of all partitions."""
    position = {topic: at for topic, at in (output.position or {}).items() if topic != ticks_topic(output.run)}
    read = sum(sum(at.values()) for at in position.values() if isinstance(at, dict))
    return position.get("sequence", read), output.batch


def decide(checkpoint: Path, decision: Decision) -> None:
    """Stores what the next start of a query is to do."""
    path = _decision_file(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(decision)))
    new.replace(path)


def decision_of(checkpoint: Path) -> Decision | None:
    """The decision that is stored for a checkpoint."""
    with suppress(OSError, ValueError, TypeError):
        decision = Decision(**json.loads(_decision_file(checkpoint).read_text()))
        return decision if decision.kind in (REPROCESS, FROM_OUTPUT) else None
    return None


def _decision_file(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.recover")
