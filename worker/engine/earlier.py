"""The earlier runs of a run's thread, read on demand."""

from __future__ import annotations

from collections.abc import Callable

from perdure.flows.core.thread_messages import ARTIFACT, Earlier, ThreadMessage, packed
from perdure.worker.domain.record import FOLLOWS, Record
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.thread_messages import earlier_messages, is_in_thread, last_artifact


class StoredEarlier(Earlier):
    """The messages of the earlier runs in a run's thread.

    The first round that reads the messages stores them in an artifact of its run. So all later
    rounds read the same messages, even if the earlier runs change or are deleted.

    Args:
        broken: called with an error of the store before the error is raised. The node may catch the
            error, but the result of the round must not be committed.
    """

    def __init__(self, store: Store, record: Record, broken: Callable[[Exception], None]) -> None:
        super().__init__(
            self._read, is_thread=is_in_thread(record), last_artifact=self._last_artifact
        )
        self._store, self._record, self._broken = store, record, broken
        self._messages: list[ThreadMessage] | None = None

    def _read(self) -> list[ThreadMessage]:
        if self._messages is None:
            try:
                self._messages = self._load()
            except (DamagedRun, StoreUnavailable) as error:
                self._broken(error)
                raise
        return list(self._messages)

    def _load(self) -> list[ThreadMessage]:
        messages, kept = earlier_messages(self._store, self._record)
        if not kept and FOLLOWS in self._record.fields:
            self.keep(ARTIFACT, packed(messages))
        return messages

    def _last_artifact(self, name: str) -> tuple[str, str] | None:
        try:
            return last_artifact(self._store, self._record, name)
        except StoreUnavailable as error:
            self._broken(error)
            raise
