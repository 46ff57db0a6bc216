"""The mailbox of a round: signals, and the results of children, read from the store."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex

from perdure.flows.core.errors import FatalError, RoundStopped, TopicTaken
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.children import Child, KnownGroup
from perdure.flows.rounds.waits import Mailbox, ReceivedSignal
from perdure.worker.domain.record import ALL_HEARD, ARRIVED, GROUPS, Record
from perdure.worker.domain.submission import PLAIN_TOPICS
from perdure.worker.engine.children import Planner, read_group
from perdure.worker.errors import DamagedRun
from perdure.worker.http_urls import parse_http
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, Store, StoreUnavailable
from perdure.worker.store.replies import StoredSignal, signal_of

#: Stands for the payload of a signal that was moved to a later run of its topic.
MOVED = object()
#: Path of the API on an HTTP server.
API = "/api/v1"


class StoreMailbox(Mailbox):
    """The mailbox of a run on the state server.

    Args:
        broken: Called with an error of the store before the error is raised. The node may catch the
            error, but the round's result must not be committed.

    Attributes:
        has_heard: Whether the round has read all messages that had been sent before its claim.
    """

    has_heard = False

    def __init__(
        self,
        store: Store,
        settings: Settings,
        record: Record,
        claim: Claim,
        journal: Journal,
        broken: Callable[[Exception], None],
    ) -> None:
        self._store, self._record, self._journal, self._broken = store, record, journal, broken
        self._settings, self._claim, self._waited_for = settings, claim, claim.waited_for

    @property
    def where(self) -> str:
        """Run id and step, as error messages name them."""
        return f"run {self._record.id}, step {self._record.step}"

    def group_name(self, wait: str) -> str:
        """Return the name of the group of children for which a node waits.

        Args:
            wait: the name of the wait.
        """
        return f"{self._record.step}.{wait}"

    def group(self, name: str) -> KnownGroup | None:
        """Return a group of children with the children's results.

        Returns:
            None if the run has no group of this name.

        Raises:
            StoreUnavailable: The server does not answer. The result of this round will not be
                committed.
            DamagedRun: The group or a child's result cannot be read.
        """
        if name not in self._record.fields.get(GROUPS, "").split("\n"):
            return None
        # The claim's copy is used once. If the node asks again, the group is read as it is then.
        prefix = f":{name} "
        told = {name: text for name, text in self._waited_for.items() if name.startswith(prefix)}
        self._waited_for = {
            name: text for name, text in self._waited_for.items() if name not in told
        }
        fields = {name.removeprefix(prefix): text for name, text in told.items()}
        try:
            known = fields or self._store.family.group(self._record.id, name)
            return read_group(self._store, self._record, name, known)
        except (StoreUnavailable, DamagedRun) as error:
            self._broken(error)
            raise

    def planned(self, children: Sequence[Child]) -> tuple[str, ...]:
        """Check children to start, and return the plan of their start.

        Returns:
            The plan as JSON texts (``pack_plan``). They hold all fields of the children, so that a
                worker can create the children from them.

        Raises:
            InvalidChild: One of the children cannot be started, or there are too many.
        """
        return Planner(self._store, self._settings, self._record, self._claim.now).plan(children)

    def hook(self, name: str) -> str:
        """Return the URL at which a service without an access token can send a signal to this run.

        The secret in the URL is derived from the run and from a key that all workers share. Only
        the digest of the secret is stored with the run.

        Args:
            name: The name of the signal.

        Raises:
            FatalError: The setting ``public_url`` is missing, or the run has too many hooks.
            RoundStopped: The run no longer exists.
            StoreUnavailable: The server does not answer. The result of this round will not be
                committed.
        """
        url = self._settings.public_url
        address = None if url is None else parse_http(url, API)
        if address is None:
            raise FatalError(
                f"{self.where}: context.hook({name!r}) needs the URL at which other services reach "
                "`perdure server`, like https://runs.example.org. Set public_url "
                f"(PERDURE_PUBLIC_URL); it is {url!r}"
            )
        run_id, nonce = self._record.id, self._record.fields.get("nonce", "")
        try:
            key = self._store.signals.hook_key(token_hex(32))
            told = f"{run_id}\n{nonce}\n{name}".encode()
            secret = hmac.new(key.encode(), told, sha256).hexdigest()[:32]
            word = self._store.signals.open_hook(
                run_id, nonce=nonce, name=name, digest=sha256(secret.encode()).hexdigest()
            )
        except StoreUnavailable as error:
            self._broken(error)
            raise
        if word == "full":
            raise FatalError(f"{self.where}: the run has 16 hooks, as many as it may have")
        if word != "ok":
            raise RoundStopped(f"{self.where}: the run is there no more ({word})")
        return f"{address.api}/hooks/{run_id}/{name}/{secret}"

    def listen(self, topic: str) -> None:
        """Take a topic for the run, with the signals that wait for the topic.

        These signals move to the run's mailbox. If the run was submitted over HTTP, the name of the
        submitter is put before the topic, as at a submission. Earlier releases did not store how a
        run was submitted, so this holds for all of their runs that have a submitter.

        Raises:
            TopicTaken: Another live run holds the topic.
            FatalError: The run holds another topic, or a key or field is damaged.
            RoundStopped: The round no longer holds the run's lease.
            StoreUnavailable: The server does not answer. The result of this round will not be
                committed.
        """
        fields = self._record.fields
        owner = None if PLAIN_TOPICS in fields else fields.get("submitted_by")
        stored = topic if owner is None else f"{owner}/{topic}"
        try:
            word, detail = self._store.signals.take_topic(
                self._record.id,
                topic=stored,
                token=self._claim.token,
                claim=self._claim.id or None,
            )
        except StoreUnavailable as error:
            self._broken(error)
            raise
        if word == "taken":
            raise TopicTaken(
                f"{self.where}: context.listen({topic!r}): run {detail} is live and holds the "
                "topic, which one run at a time holds. Signal that run. If this one is to have the "
                f"topic: perdure stop {detail}, then perdure retry {self._record.id}",
                topic,
                detail,
            )
        if word == "other":
            raise self._has_other(detail, topic)
        if word == "damaged":
            raise FatalError(
                f"{self.where}: context.listen({topic!r}): {detail} is damaged on the server, and "
                "nothing was written. Mend or delete it (perdure doctor), then retry the run: "
                f"perdure retry {self._record.id}"
            )
        if word != "ok":
            raise RoundStopped(
                f"{self.where}: the round is no longer the run's, which has not got the topic "
                f"{topic!r} ({word})"
            )

    def unread(self, names: Sequence[str]) -> list[ReceivedSignal]:
        """Return the next unread signal of each name, in the order of arrival.

        A name without an unread signal is left out.

        Raises:
            StoreUnavailable: The server does not answer. The result of this round will not be
                committed.
            DamagedRun: A signal cannot be read.
        """
        try:
            return self._read(names)
        except (StoreUnavailable, DamagedRun) as error:
            self._broken(error)
            raise

    def all_unread(self, names: Sequence[str], most: int) -> list[ReceivedSignal]:
        """Return up to ``most`` unread signals of these names, in the order of arrival.

        The state server is asked only if signals have come since a round last read all of them.

        Raises:
            StoreUnavailable: The server does not answer. The result of this round will not be
                committed.
            DamagedRun: A signal cannot be read.
        """
        fields = self._record.fields
        if fields.get(ARRIVED) == fields.get(ALL_HEARD):
            return []
        try:
            counts = self._store.signals.counts_of(self._record.id, names)
            wanted = [
                (name, number)
                for name, (taken, newest) in counts.items()
                for number in range(
                    max(taken, self.used.get(name, 0)) + 1, min(newest, taken + most + 1) + 1
                )
            ]
            found = self._fetched(wanted)
        except (StoreUnavailable, DamagedRun) as error:
            self._broken(error)
            raise
        self.has_heard = len(wanted) <= most
        return self._without_moved(found[:most])

    def _read(self, names: Sequence[str]) -> list[ReceivedSignal]:
        read = self._told(names) or self._asked(names)
        found = self._without_moved(read)
        while len(found) < len(read):
            read = self._asked(names)
            found = self._without_moved(read)
        return found

    def _told(self, names: Sequence[str]) -> list[ReceivedSignal]:
        """Return the next unread signal of each name from the data that came with the claim.

        Empty if that data has no such signal, or does not cover all names. Then the server must be
        asked.
        """
        fields = self._record.fields
        waited = {line.partition(" ")[0] for line in fields.get("wait_for", "").split("\n")}
        if not self._waited_for or self.used or not waited.issuperset(names):
            return []
        read = []
        for name in names:
            if f"{name}:taken" in self._waited_for:
                number = int(self._waited_for[f"{name}:taken"]) + 1
                stored = signal_of(self._waited_for[f"{name}:{number}"])
                read.append((name, number, stored))
        return self._in_order(read)

    def _asked(self, names: Sequence[str]) -> list[ReceivedSignal]:
        """Return the next unread signal of each name, read from the state server."""
        counts = self._store.signals.counts_of(self._record.id, names)
        wanted = [
            (name, max(taken, self.used.get(name, 0)) + 1)
            for name, (taken, newest) in counts.items()
            if max(taken, self.used.get(name, 0)) < newest
        ]
        return self._fetched(wanted)

    def _fetched(self, wanted: Sequence[tuple[str, int]]) -> list[ReceivedSignal]:
        """Read signals from the state server, and return them in the order of arrival.

        Args:
            wanted: Name and number of each signal.

        Raises:
            DamagedRun: A signal is missing.
        """
        if not wanted:
            return []
        read = []
        found = self._store.signals.stored(self._record.id, wanted)
        for (name, number), stored in zip(wanted, found, strict=True):
            if stored is None:
                raise DamagedRun(f"{self.where}: signal {number} of {name!r} is missing")
            read.append((name, number, stored))
        return self._in_order(read)

    def _in_order(self, read: Sequence[tuple[str, int, StoredSignal]]) -> list[ReceivedSignal]:
        return [
            ReceivedSignal(
                name,
                number,
                json.loads(stored.payload) if stored.payload else MOVED,
                datetime.fromtimestamp(stored.at / 1000, UTC),
                stored.by or None,
            )
            for name, number, stored in sorted(read, key=lambda each: each[2].order)
        ]

    def _without_moved(self, signals: Sequence[ReceivedSignal]) -> list[ReceivedSignal]:
        """Return the signals without those that were moved to a later run of the topic.

        The moved ones are marked as used, so that the round's commit removes them.
        """
        for signal in signals:
            if signal.payload is MOVED:
                self._use(signal.name, signal.number)
        return [signal for signal in signals if signal.payload is not MOVED]
