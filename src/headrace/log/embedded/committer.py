"""Group commit: appends of many threads go into one transaction, and one sync serves them all.

Callers prepare and encode large rows themselves, on their own threads; the committer places what is ready: it gives
offsets and sequences, inserts the extents and moves writers' numbers, all in one transaction. While it syncs, the
next group gathers. A request that cannot be done fails alone.
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
from headrace.log.embedded.extents import Writer
from headrace.log.embedded.mailbox import DONE, POSTED, REFUSED, Mailbox, Post
from headrace.log.embedded.placing import Load, Place, Placing, Request, Stale
from headrace.log.embedded.store import Store, busy, remove_unnamed, translated

_MOST = 4096  # requests in one group
_PATIENCE = 0.02  # seconds after which one looks whether the leader is still alive


class Committer:
    """All writing of this process. A thread that appends commits itself if it is alone, else it waits in company."""

    def __init__(
        self, store: Store, encoder: Writer, mailbox: Mailbox, now: Callable[[], int], timeout: timedelta
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
        """Queue a request; its future gives the list of `Appended` (None: the writer's number was there before)."""
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        request.future = future = Future()
        self._pending.append(request)
        self._call.set()
        return future

    def run(self, request: Request) -> Any:
        """Commit a request, together with all that is queued, and wait for it.

        `LogBusy` when the write lock was not to be had; then nothing was written (unless another process was stopped
        in the middle of committing it for us, and is let go on later).
        """
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        if not self._busy.acquire(blocking=False):
            return self._run_in_company(request)
        try:
            self._drain(request)
        finally:
            self._busy.release()
        if self._pending:
            self._call.set()  # others came meanwhile: they are the thread's
        return request.future.result()

    def _run_in_company(self, request: Request) -> Any:
        future = self.submit(request)
        try:
            return future.result(self._timeout)
        except FutureTimeout:
            if not future.cancel():
                return future.result()
            raise busy(self._store.folder, self._timeout) from None

    def change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a change of the catalog in a transaction of its own and wait until it is on the disk."""
        return self.run(Request(change=change))

    def close(self) -> None:
        """Finish what is queued, then stop."""
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
        while self._pending and len(group) < _MOST:
            group.append(self._pending.popleft())
        group += own
        if len(group) == 1:
            self._try(group)
            return
        for _, run in itertools.groupby(group, key=lambda r: id(r) if r.change else 0):
            self._try(list(run))

    def _try(self, run: list[Request]) -> None:
        """Commit appends together, a change of the catalog alone; a failure reaches everybody who waits."""
        # From here on nobody can give up waiting: what may be written by others cannot be called off.
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
        load = Load(group, self._encoder, self._now())
        try:
            self._commit_load(group, load)
        except BaseException:
            self._remove(load.files)
            raise

    def _commit_load(self, group: list[Request], load: Load) -> None:
        if all(request.change is None and request.mark is None for request in group):
            offsets = self._by_mail(group, load)
            if offsets is not None:
                self._resolve(group, offsets)
                return
        self._lead(group, load, elected=False)

    def _remove(self, files: Iterable[str]) -> None:
        """Remove files of rows joined here that no row came to name."""
        for file in files:
            remove_unnamed(self._store, file)

    # -- through the mailbox ------------------------------------------------------------------------------------------

    def _by_mail(self, group: list[Request], load: Load) -> dict[Place, int] | None:
        """Let the leading process commit for us, or lead and commit for others; None if we must do it alone."""
        if not self._mailbox.led and self._mailbox.take_turn():
            self._lead(group, load, elected=True)
            return {}
        if any(part.topic.spec.quota_bytes for request in group for part in request.parts):
            return None
        number = self._mailbox.post(load.letters())
        if number is None:
            return None
        reach("mail.posted")
        return self._await(group, load, number)

    def _await(self, group: list[Request], load: Load, number: int) -> dict[Place, int] | None:
        places = list(load.places)
        patience = time.monotonic() + _PATIENCE
        deadline = time.monotonic() + self._timeout
        while True:
            ring = self._mailbox.ring
            state = self._mailbox.state
            if state in (DONE, REFUSED):
                offsets = self._mailbox.reply()
                return None if offsets is None else dict(zip(places, offsets, strict=True))
            # A leader answers a post that it took, and rings when it goes, unless it died.
            free = state == POSTED and not self._mailbox.led
            if (free or time.monotonic() > patience) and self._mailbox.take_turn():
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

    def _withdraw(self, places: list[Place], number: int) -> dict[Place, int] | None:
        """The leader lives but does not move: take the post back (None), unless it is in the log already."""
        try:
            # Leaders look under the lock whether a post is still theirs, so it is safe to take it back there.
            with translated(self._store.folder), self._store.lock.held(self._timeout):
                offsets = self._mailbox.recover(self._store.query, number)
        except BaseException:
            self._mailbox.forget()
            raise
        if offsets is None:
            return None
        self._store.sync()
        return dict(zip(places, offsets, strict=True))

    def _resolve(self, group: list[Request], offsets: dict[Place, int]) -> None:
        """Tell the waiters where a leader in another process put their rows."""
        for request in group:
            if request.future.done():
                continue
            appended = []
            for part in request.parts:
                place = (part.topic_id, part.partition)
                appended.append(Appended(part.topic.name, part.partition, offsets[place], part.count))
                offsets[place] += part.count
            request.future.set_result(appended)

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _lead(self, group: list[Request], load: Load, *, elected: bool) -> None:
        """Commit the group, and as the elected leader what others have posted until now."""
        posts: list[Post] = []
        placing: Placing | None = None
        try:
            _ = load.extents  # encoded before the lock is asked for: others need not wait for it
            if elected:
                self._mailbox.gather()
            with self._store.transaction(self._timeout) as db:
                placing = Placing(db, self._encoder, self._now())
                done = self._place(group, load, placing)
                posts = self._mailbox.collect() if elected else []
                answers = [(post, placing.deliver(post) if self._mailbox.holds(post) else None) for post in posts]
                self._mailbox.remember(db, answers)
                sequence = placing.finish()
                reach("commit.placed")
        except BaseException:
            self._remove(placing.made if placing else ())
            self._answer(((post, None) for post in posts), elected)
            raise
        reach("commit.committed")
        try:
            self._store.bell.page.committed = max(self._store.bell.page.committed, sequence)
            self._settle(done, sequence, bool(posts))
        except BaseException:
            # Committed, perhaps not on the disk: the posters find out by themselves.
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

    def _place(self, group: list[Request], load: Load, placing: Placing) -> list[tuple[Request, Any]]:
        done: list[tuple[Request, Any]] = []
        for request in group:
            try:
                done.append((request, request.change(placing.db) if request.change else placing.take(request)))
            except (HeadraceError, Stale) as error:
                if request.change:
                    raise  # it may have written already: roll back
                request.future.set_exception(error)
        placed = [request for request, result in done if result is not None]
        if len(placed) < len(group):
            self._remove(load.files)
            load = Load(placed, self._encoder, self._now())
        placing.insert(load)
        return done

    def _settle(self, done: list[tuple[Request, Any]], sequence: int, for_others: bool) -> None:
        changed = any(request.change for request, _ in done)
        if changed:
            self._store.bell.page.catalog = (self._store.bell.page.catalog + 1) & 0xFFFFFFFF
        if changed or for_others or any(request.ack is Ack.ALL for request, _ in done):
            # Without a sequence (a change, a writer's number without rows) all that there is must be synced.
            self._store.sync(None if changed else sequence or None)
        reach("commit.synced")
        self._store.bell.ring()
        for request, result in done:
            request.future.set_result(result)
