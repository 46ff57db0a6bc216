"""The replies of transitions as objects, and the request of a commit for a prefetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

#: Separates the texts in a reply that is one long text (parts/grant.lua).
BETWEEN = "\x1f"
#: Number of the newest turns that come with a claim.
NEWEST_TURNS = 8


class Claim(NamedTuple):
    """A granted claim: the lease's token, and the data that the round needs.

    Times are in ms of the server's clock.

    Attributes:
        token: the fencing token of the lease.
        attempt: the number of the attempt, from 1.
        lease_until: the time at which the lease ends, if it is not extended.
        now: the time of the claim.
        turns: the number of all stored turns of the run's history.
        fields: the fields of the run's hash.
        newest: the newest turns, as stored texts. At most ``NEWEST_TURNS``.
        id: the id of the claim.
        carried_over: whether the commit of the run's previous round renewed the claim, because the
            run has affinity to this worker. Then ``fields`` are those that this worker has just
            committed. They were not read again.
        waited_for: the signals and the ended children that may have ended the wait of the run's
            step (``waited_for`` in parts/grant.lua). Empty if the step has not waited.
    """

    token: str
    attempt: int
    lease_until: int
    now: int
    turns: int
    fields: dict[str, str]
    newest: list[str]
    id: str = ""
    carried_over: bool = False
    waited_for: Mapping[str, str] = MappingProxyType({})

    @property
    def waited(self) -> int | None:
        """Ms that the round's message waited in its queue. None if it was not in a queue."""
        queued_at = self.fields.get("queued_at")
        if self.carried_over or not queued_at:
            return None
        return max(0, self.now - int(queued_at))


class PrefetchRequest(NamedTuple):
    """The request of a commit to prefetch the next message.

    The commit pops a message from the first queue that has one. The same script claims the round of
    this message, as ``store.rounds.claim`` does.

    Attributes:
        lists: the queues, in the order in which they are tried.
        claim: the id for the new claim. A commit that is sent again must send the same id. Another
            commit must not use it.
        owner: the worker's name.
        lease: ms until the new lease ends.
        known: the names of the flows that the worker runs.
        schema: the newest schema version of runs that the worker reads. None: any version.
    """

    lists: Sequence[str]
    claim: str
    owner: str
    lease: int
    known: Iterable[str]
    schema: str | None = None

    def named(self) -> dict[str, str | int | None]:
        """Return the request as arguments of commit_round.lua."""
        named: dict[str, str | int | None] = {
            "fetch": "\n".join(self.lists),
            "fetch_claim": self.claim,
            "owner": self.owner,
            "lease": self.lease,
        }
        return {
            **named,
            "known": known_flows(self.known),
            "newest": NEWEST_TURNS,
            "schema": self.schema,
        }


class Prefetched(NamedTuple):
    """A message that the commit of another round prefetched, with the claim of its own round.

    Attributes:
        list: the queue from which the message was popped.
        text: the message. It may be empty if ``content`` is set.
        claim: the claim of the message's round. None if the commit popped the message, but could
            not claim its round. Then the worker has to claim the round when it receives the
            message.
        content: the parsed message, if this process built it. None if the text has to be parsed.
    """

    list: str
    text: str
    claim: Claim | None
    content: dict[str, Any] | None = None


class CommitReply(NamedTuple):
    """The reply to a commit.

    Attributes:
        word: the word of commit_round.lua. ``ok`` if the round was committed.
        detail: with ``ok``, the result of the commit (``continued``, ``completed``, ...). With
            ``unread``, the unread signals. With ``damaged``, the damaged key or field.
        prefetched: the message that the commit prefetched. None if it prefetched none.
        follow_ups: ids of runs whose children need a follow-up. The caller may do it at once.
    """

    word: str
    detail: str = ""
    prefetched: Prefetched | None = None
    follow_ups: Sequence[str] = ()


class ChildrenStep(NamedTuple):
    """The next step for a run's children.

    It is the reply of reconcile_children.lua.

    Attributes:
        word: the word of the script. With ``start``, the caller starts children. With ``more``, it
            calls the script again.
        group: with ``start``, the group whose children may be started.
        first: with ``start``, the number of the first of these children in the group.
        nonce: with ``start``, the nonce of the parent.
        room: with ``start``, how many children may be started.
        plan: with ``start``, the two texts of the group's plan that describe these children.
        walk: with ``more``, the argument ``walk`` of the next call.
        start: with ``more``, the argument ``start`` of the next call. With ``damaged``, the damaged
            key or field.
        follow_ups: ids of runs whose own children need a follow-up.
    """

    word: str
    group: str = ""
    first: int = 0
    nonce: str = ""
    room: int = 0
    plan: tuple[str, str] = ("", "")
    walk: str | None = None
    start: str | None = None
    follow_ups: Sequence[str] = ()


class StartReply(NamedTuple):
    """The reply to a start of children.

    Attributes:
        word: the word of start_children.lua. ``ok`` if the children were created.
        detail: the text after the word. With ``ok`` and ``stale``, how many children of the group
            exist now.
        to_publish: the messages that the caller must publish, as (queue, message). Empty without an
            outbox.
        has_ended_follow_up: whether the script ended the follow-up, because nothing is left to do
            for the children of the run.
    """

    word: str
    detail: str = ""
    to_publish: Sequence[tuple[str, str]] = ()
    has_ended_follow_up: bool = False


class ClaimRefused(NamedTuple):
    """A claim that the script did not grant.

    Attributes:
        word: the word of claim_round.lua, with the reason.
        detail: the text after the word, such as a phase or a flow. Empty after most words.
    """

    word: str
    detail: str = ""


@dataclass(frozen=True)
class SweepReply:
    """The result of a sweep.

    Attributes:
        report: ``(run_id, word)`` of each examined run. The word is the outcome (sweep_due.lua).
        handed: ``(queue, message)`` of each message that the caller must publish. Empty without an
            outbox.
        unmade: queue, epoch, step and phase of each run without a stored message, by run id. The
            caller must build the message for the next sweep.
        calls: run id and epoch of each ended run whose ``on_end`` callback is overdue. The caller
            must publish it.
        follow_ups: ids of runs whose children need a follow-up. The caller must do it.
        due_in: ms until the next run is due, but at most one lease. None if the due set is empty,
            or if nothing was done because another sweep was too recent.
    """

    report: list[tuple[str, str]]
    handed: list[tuple[str, str]]
    unmade: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)
    due_in: int | None = field(default=None, compare=False)


class Continuation(NamedTuple):
    """The lease of the next round, for a run with affinity to its worker.

    Attributes:
        token: the fencing token of the new lease.
        now: the time of the commit (ms).
        lease_until, number, round_until: stored fields of the run. ``round_until`` is None if the
            round has no time limit.
    """

    token: str
    now: int
    lease_until: str
    number: str
    round_until: str | None = None


def known_flows(flows: Iterable[str]) -> str:
    """Return flow names as one text, in which parts/grant.lua searches for the flow of a run."""
    return f",{','.join(flows)},"


class StoredSignal(NamedTuple):
    """A signal as it is stored in a mailbox.

    Attributes:
        order: the number of the signal among the signals of all names.
        at: the time at which it was sent (ms).
        by: the sender. Empty if it is unknown.
        payload: the payload as JSON. Empty if the signal was moved to a later run of its topic.
            Readers ignore such a signal.
    """

    order: int
    at: int
    by: str
    payload: str


def signal_of(text: str) -> StoredSignal:
    """Parse a signal from a field of a mailbox.

    Raises:
        ValueError: ``text`` is not a stored signal.
    """
    order, at, rest = text.split("\n", 2)
    # The sender's name may have line breaks. JSON has none.
    by, separator, payload = rest.rpartition("\n")
    if not separator:
        raise ValueError("expected four lines: order, time, sender and payload")
    return StoredSignal(int(order), int(at), by, payload)
