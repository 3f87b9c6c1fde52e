"""Group commit: appends of many threads share one transaction and one sync.

Callers prepare and encode large rows on their own threads. The committer places what is ready: it assigns offsets and
sequences, inserts the extents and advances writers' numbers, all in one transaction. While it syncs, the next group
collects. A request that fails does not affect the others in its group.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta
from typing import Any

from headrace.contracts import Ack, Appended
from headrace.errors import Closed, HeadraceError
from headrace.faultpoints import reach
from headrace.log.embedded.commit.mailbox import DONE, POSTED, REFUSED, Mailbox, Post
from headrace.log.embedded.commit.placement import CommitLoad, PartitionKey, Placement, Request, StaleTopic
from headrace.log.embedded.storage.extents import ExtentEncoder
from headrace.log.embedded.storage.store import Store, lock_timeout_error, remove_unnamed, translate_errors
from headrace.long_waits import LONG_WAITS, REPORT_SECONDS

_MAX_GROUP = 4096  # requests in one group
_PATIENCE = 0.02  # seconds between checks that the leader is still alive


class Committer:
    """All writes of this process. A single appending thread commits by itself; concurrent threads share a commit."""

    def __init__(
        self, store: Store, encoder: ExtentEncoder, mailbox: Mailbox, now: Callable[[], int], timeout: timedelta
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._mailbox = mailbox
        self._now = now
        self._timeout = timeout.total_seconds()
        self._pending: deque[Request] = deque()
        self._busy = threading.Lock()
        self._call = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="headrace-commit", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Any]:
        """Queue a request; its future returns the list of `Appended` (None: the log has the writer's number)."""
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        request.future = future = Future()
        self._pending.append(request)
        self._call.set()
        return future

    def run(self, request: Request) -> Any:
        """Commit a request together with everything that is queued, and wait for it.

        Raises `LogBusy` if the write lock was not available; then nothing was written (unless another process was
        suspended while committing it on our behalf, and resumes later).
        """
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        if not self._busy.acquire(blocking=False):
            return self._run_grouped(request)
        try:
            self._drain(request)
        finally:
            self._busy.release()
        if self._pending:
            self._call.set()  # requests that arrived meanwhile go to the commit thread
        return request.future.result()

    def _run_grouped(self, request: Request) -> Any:
        future = self.submit(request)
        try:
            return future.result(min(self._timeout, REPORT_SECONDS))
        except FutureTimeout:
            name, left = threading.current_thread().name, self._timeout - REPORT_SECONDS
            if left <= 0:
                return self._give_up(future)
        with LONG_WAITS.waiting("commit", name, "the commits before it"):
            try:
                return future.result(left)
            except FutureTimeout:
                return self._give_up(future)

    def _give_up(self, future: Future[Any]) -> Any:
        """Raise LogBusy, unless the request is being committed just now."""
        if not future.cancel():
            return future.result()
        raise lock_timeout_error(self._store.folder, self._timeout) from None

    def change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a catalog change in its own transaction and wait until it is durable."""
        return self.run(Request(change=change))

    def close(self) -> None:
        """Commit what is queued, then stop."""
        self._closed = True
        self._call.set()
        self._thread.join()

    def _serve(self) -> None:
        while not (self._closed and not self._pending):
            self._call.wait()
            self._call.clear()
            while self._pending:
                with self._busy:
                    if self._pending and self._pending[0].linger:
                        time.sleep(self._pending[0].linger)
                    self._drain()

    def _drain(self, *own: Request) -> None:
        group: list[Request] = []
        while self._pending and len(group) < _MAX_GROUP:
            group.append(self._pending.popleft())
        group += own
        if len(group) == 1:
            self._try(group)
            return
        for _, run in itertools.groupby(group, key=lambda r: id(r) if r.change else 0):
            self._try(list(run))

    def _try(self, run: list[Request]) -> None:
        """Commit appends together, a catalog change alone; a failure reaches all waiting callers."""
        # From here on a request cannot be cancelled: another process may be writing it.
        run = [request for request in run if request.future.set_running_or_notify_cancel()]
        try:
            self._commit(run)
        except BaseException as error:
            for request in run:
                if not request.future.done():
                    request.future.set_exception(error)

    def _commit(self, group: list[Request]) -> None:
        if not group:
            return
        load = CommitLoad(group, self._encoder, self._now())
        try:
            self._commit_load(group, load)
        except BaseException:
            self._remove(load.files)
            raise

    def _commit_load(self, group: list[Request], load: CommitLoad) -> None:
        if all(request.change is None and request.mark is None for request in group):
            offsets = self._through_mailbox(group, load)
            if offsets is not None:
                self._resolve(group, offsets)
                return
        self._lead(group, load, elected=False)

    def _remove(self, files: Iterable[str]) -> None:
        """Remove files of merged rows that no committed row references."""
        for file in files:
            remove_unnamed(self._store, file)

    # -- commit through the mailbox -----------------------------------------------------------------------------------

    def _through_mailbox(self, group: list[Request], load: CommitLoad) -> dict[PartitionKey, int] | None:
        """Let the leading process commit for us, or lead and commit for others; None if we must commit alone."""
        if not self._mailbox.has_leader and self._mailbox.try_lead():
            self._lead(group, load, elected=True)
            return {}
        if any(part.topic.spec.quota_bytes for request in group for part in request.parts):
            return None
        number = self._mailbox.post(load.posted_parts())
        if number is None:
            return None
        reach("mail.posted")
        return self._await_leader(group, load, number)

    def _await_leader(self, group: list[Request], load: CommitLoad, number: int) -> dict[PartitionKey, int] | None:
        places = list(load.places)
        patience = time.monotonic() + _PATIENCE
        deadline = time.monotonic() + self._timeout
        while True:
            ring = self._mailbox.ring
            state = self._mailbox.state
            if state in (DONE, REFUSED):
                offsets = self._mailbox.reply()
                return None if offsets is None else dict(zip(places, offsets, strict=True))
            # A leader answers every post that it took, and signals when it steps down, unless it died.
            free = state == POSTED and not self._mailbox.has_leader
            if (free or time.monotonic() > patience) and self._mailbox.try_lead():
                offsets = self._mailbox.recover(self._store.query, number)
                if offsets is None:
                    self._lead(group, load, elected=True)
                    return {}
                self._mailbox.step_down()
                self._store.sync()
                return dict(zip(places, offsets, strict=True))
            if time.monotonic() > deadline:
                return self._withdraw(places, number)
            self._mailbox.wait(ring, _PATIENCE)

    def _withdraw(self, places: list[PartitionKey], number: int) -> dict[PartitionKey, int] | None:
        """The leader is alive but stuck: withdraw the post (None), unless it is committed already."""
        try:
            # Leaders check under the lock whether a post is still valid, so withdrawing it under the lock is safe.
            with translate_errors(self._store.folder), self._store.lock.held(self._timeout):
                offsets = self._mailbox.recover(self._store.query, number)
        except BaseException:
            self._mailbox.clear_post()
            raise
        if offsets is None:
            return None
        self._store.sync()
        return dict(zip(places, offsets, strict=True))

    def _resolve(self, group: list[Request], offsets: dict[PartitionKey, int]) -> None:
        """Report to the waiting callers where a leader in another process placed their rows."""
        for request in group:
            if request.future.done():
                continue
            appended = []
            for part in request.parts:
                place = (part.topic_id, part.partition)
                appended.append(Appended(part.topic.name, part.partition, offsets[place], part.count))
                offsets[place] += part.count
            request.future.set_result(appended)

    # -- commit under the lock ----------------------------------------------------------------------------------------

    def _lead(self, group: list[Request], load: CommitLoad, *, elected: bool) -> None:
        """Commit the group and, as the elected leader, everything that other processes have posted so far."""
        posts: list[Post] = []
        placing: Placement | None = None
        try:
            _ = load.extents  # encode before taking the lock, so that others do not wait for it
            if elected:
                self._mailbox.gather()
            with self._store.transaction(self._timeout) as db:
                placing = Placement(db, self._encoder, self._now())
                done = self._place(group, load, placing)
                posts = self._mailbox.collect() if elected else []
                answers = [(post, placing.deliver(post) if self._mailbox.holds(post) else None) for post in posts]
                self._mailbox.record_answers(db, answers)
                sequence = placing.finish()
                reach("commit.placed")
        except BaseException:
            self._remove(placing.made if placing else ())
            self._answer(((post, None) for post in posts), elected)
            raise
        reach("commit.committed")
        try:
            self._store.commit_signal.page.committed = max(self._store.commit_signal.page.committed, sequence)
            self._finish(done, sequence, bool(posts))
        except BaseException:
            # Committed, but perhaps not durable: the posters find out by themselves.
            self._answer((), elected)
            raise
        self._answer(answers, elected)

    def _answer(self, answers: Iterable[tuple[Post, list[int] | None]], elected: bool) -> None:
        try:
            for post, offsets in answers:
                self._mailbox.answer(post, offsets)
        finally:
            if elected:
                self._mailbox.step_down()

    def _place(self, group: list[Request], load: CommitLoad, placing: Placement) -> list[tuple[Request, Any]]:
        done: list[tuple[Request, Any]] = []
        for request in group:
            try:
                done.append((request, request.change(placing.db) if request.change else placing.take(request)))
            except (HeadraceError, StaleTopic) as error:
                if request.change:
                    raise  # some rows may be written already: roll back
                request.future.set_exception(error)
        placed = [request for request, result in done if result is not None]
        if len(placed) < len(group):
            self._remove(load.files)
            load = CommitLoad(placed, self._encoder, self._now())
        placing.insert(load)
        return done

    def _finish(self, done: list[tuple[Request, Any]], sequence: int, for_others: bool) -> None:
        changed = any(request.change for request, _ in done)
        if changed:
            self._store.commit_signal.page.catalog = (self._store.commit_signal.page.catalog + 1) & 0xFFFFFFFF
        if changed or for_others or any(request.ack is Ack.ALL for request, _ in done):
            # Without a sequence (a catalog change, or a writer's number without rows) everything must be synced.
            self._store.sync(None if changed else sequence or None)
        reach("commit.synced")
        self._store.commit_signal.notify()
        for request, result in done:
            request.future.set_result(result)
