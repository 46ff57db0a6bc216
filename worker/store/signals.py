"""Signals, topics, hooks, and the end of waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from perdure.worker.store.part import StorePart
from perdure.worker.store.replies import StoredSignal, signal_of


class SignalTransitions(StorePart):
    """Transitions and reads of signals, topics, hooks and waits (``store.signals``)."""

    def send(
        self,
        run_id: str,
        *,
        name: str,
        payload: str,
        most: int,
        names: int,
        size: int,
        by: str | None = None,
        key: str | None = None,
        content: str | None = None,
    ) -> list[str]:
        """Put a signal into a run's mailbox. Return the reply of signal_run.lua.

        Args:
            name: the name of the signal.
            payload: the payload, as JSON.
            most: the maximum number of unread signals of one name.
            names: the maximum number of names with unread signals.
            size: the maximum number of bytes of all unread signals.
            by: the sender.
            key: the sender's own id of this signal. If the signal was sent before with this key,
                nothing changes.
            content: the digest of the payload. It is needed with a key.
        """
        named = {"name": name, "payload": payload, "most": most, "names": names, "bytes": size}
        return self._store._run(
            "signal_run", run_id, {**named, "by": by, "key": key, "content": content}
        )

    def send_to_topic(
        self,
        topic: str,
        *,
        keep: int,
        most_waiting: int,
        size_waiting: int,
        name: str,
        payload: str,
        most: int,
        names: int,
        size: int,
        by: str | None = None,
        key: str | None = None,
        content: str | None = None,
    ) -> list[str]:
        """Send a signal to the run that holds a topic.

        If no run holds the topic, the signal waits for the next run that takes the topic. The other
        arguments are those of ``send``.

        Args:
            keep: the ms for which the signal waits for a run. Then it is dropped.
            most_waiting: the maximum number of signals that wait in one topic.
            size_waiting: the maximum number of bytes of these signals.

        Returns:
            The reply of signal_topic.lua.
        """
        named = {"topic": topic, "keep": keep, "name": name, "payload": payload}
        named |= {"most": most, "names": names, "bytes": size}
        named |= {"most_waiting": most_waiting, "bytes_waiting": size_waiting}
        named |= {"by": by, "key": key, "content": content}
        return self._store._call("signal_topic", self.keys.of_topic(topic), named, run_id=topic)

    def wake(
        self, run_id: str, *, epoch: int, step: int, message: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Queue a parked run whose wait is over (wake_run.lua).

        Args:
            message: the message of the run's next round.

        Returns:
            The word of the script, and the messages that the caller must publish, as (queue,
            message). There are none without an outbox.
        """
        reply = self._store._run(
            "wake_run", run_id, {"epoch": epoch, "step": step, "message": message}
        )
        return _woken(reply)

    def wake_all(
        self, messages: Mapping[str, tuple[str, str, str]]
    ) -> list[tuple[str, list[tuple[str, str]]]]:
        """Queue parked runs whose wait is over.

        One exchange queues all of them.

        Args:
            messages: epoch, step and message of each run, by run id.

        Returns:
            For each run the result that ``wake`` would return.
        """
        calls = [
            (self.keys.of_run(run_id), {"epoch": epoch, "step": step, "message": message})
            for run_id, (epoch, step, message) in messages.items()
        ]
        return (
            [_woken(reply) for reply in self._store._call_all("wake_run", calls)] if calls else []
        )

    def open_hook(self, run_id: str, *, nonce: str, name: str, digest: str) -> str:
        """Store the digest of a hook's secret with its run.

        Args:
            nonce: the nonce of the run.
            name: the name of the signal that the hook sends.

        Returns:
            The word of open_hook.lua.
        """
        named = {"nonce": nonce, "name": name, "digest": digest}
        return str(self._store._run("open_hook", run_id, named)[0])

    def take_topic(
        self, run_id: str, *, topic: str, token: str, claim: str | None
    ) -> tuple[str, str]:
        """Take a topic for a run, with its waiting signals.

        Only a round that holds the run's lease may do so.

        Args:
            token, claim: those of the round's claim. A ``claim`` of None is not checked.

        Returns:
            The word of take_topic.lua, and a detail. With ``taken`` it is the run that holds the
            topic, with ``other`` the topic that this run already holds, with ``damaged`` the
            damaged key or field. With another word it is empty.
        """
        named = {"token": token, "claim": claim, "topic": topic}
        word, *details = self._store._run("take_topic", run_id, named)
        return word, details[0] if details else ""

    def hook_key(self, proposed: str) -> str:
        """Return the key behind the secrets of all hooks.

        All workers of this prefix share that key. If no key is stored, ``proposed`` is stored.
        """
        with self._store._answered():
            stored = self._store.redis.get(self.keys.hook_key)
            if stored is None:
                self._store.redis.set(self.keys.hook_key, proposed, nx=True)
                stored = self._store.redis.get(self.keys.hook_key)
        return str(stored)

    def run_of_topic(self, topic: str) -> str | None:
        """Return the id of the topic's current run.

        None if no run holds the topic, or if that run has completed or no longer exists.
        """
        with self._store._answered():
            run_id, nonce = cast(
                "list[str | None]",
                self._store.redis.hmget(self.keys.topic(topic), ("run", "nonce")),
            )
            if not run_id:
                return None
            stored, phase = cast(
                "list[str | None]",
                self._store.redis.hmget(self.keys.run(run_id), ("nonce", "phase")),
            )
        return run_id if stored == nonce and phase not in (None, "completed") else None

    def newest_of_topic(self, topic: str) -> str | None:
        """Return the last run that took a topic.

        It may have ended. None if no run took the topic.
        """
        with self._store._answered():
            found = self._store.redis.hmget(self.keys.topic(topic), ["run", "before"])
        holder, before = cast("list[str | None]", found)
        return holder or (before or "").partition(" ")[0] or None

    def counts_of(self, run_id: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return two signal numbers for each name: the newest taken and the newest sent signal.

        A signal is taken when the round that used it is committed. A number is 0 if there is no
        such signal.
        """
        wanted = [f"{name}:{which}" for name in names for which in ("taken", "last")]
        with self._store._answered():
            found = cast(
                "list[str | None]", self._store.redis.hmget(self.keys.mailbox(run_id), wanted)
            )
        counts = [int(text or 0) for text in found]
        return dict(zip(names, zip(counts[::2], counts[1::2], strict=True), strict=True))

    def stored(self, run_id: str, wanted: Sequence[tuple[str, int]]) -> list[StoredSignal | None]:
        """Return a mailbox's signals in the order of ``wanted``.

        Args:
            wanted: name and number of each signal.

        Returns:
            None stands for a signal that is not in the mailbox.
        """
        fields = [f"{name}:{number}" for name, number in wanted]
        with self._store._answered():
            found = cast(
                "list[str | None]", self._store.redis.hmget(self.keys.mailbox(run_id), fields)
            )
        return [signal_of(text) if text else None for text in found]

    def names(self, run_id: str) -> list[str]:
        """Return the names of all signals that were ever sent to a run, sorted."""
        with self._store._answered():
            fields = cast("list[str]", self._store.redis.hkeys(self.keys.mailbox(run_id)))
        return sorted(name.removesuffix(":last") for name in fields if name.endswith(":last"))

    def reply(self, run_id: str, name: str, number: int) -> str | None:
        """Return a run's reply to a signal, as JSON. None if it has not replied.

        Args:
            name: the name of the signal.
            number: the number of the signal among the signals of its name.
        """
        with self._store._answered():
            field = f"{name}:reply:{number}"
            return cast("str | None", self._store.redis.hget(self.keys.mailbox(run_id), field))


def _woken(reply: list[Any]) -> tuple[str, list[tuple[str, str]]]:
    """Parse the reply of wake_run.lua: its word, and the (queue, message) to publish.

    There is no message without an outbox, or if the run was not queued.
    """
    word, *rest = reply
    return word, [(rest[0], rest[1])] if word == "queued" and rest else []
