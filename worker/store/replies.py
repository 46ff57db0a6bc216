"""Replies of transitions, and a commit's prefetch request."""

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
    """A claim that was granted: the lease's token, and everything that the round needs.

    Times are in ms of the server's clock. ``carried_over`` marks a claim that a commit renewed for
    a run with affinity to this worker. Its ``fields`` are those that the caller itself committed a
    moment ago. They were not read again. ``waited_for`` has the signals and ended children that may
    have ended the wait of the run's step (``waited_for`` in parts/grant.lua).
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
        """Ms that the round waited in its queue. None if it was not queued."""
        queued_at = self.fields.get("queued_at")
        if self.carried_over or not queued_at:
            return None
        return max(0, self.now - int(queued_at))


class PrefetchRequest(NamedTuple):
    """A commit's request for the next message.

    The commit takes the message from the first queue of ``lists`` that has one. The same script
    claims the message's round, as ``store.rounds.claim`` would. ``claim`` is an id made for this
    commit alone. A commit that is sent again must send the same id.
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
    """A message that a commit prefetched, and the claim of its round.

    ``claim`` is None if the round could not be claimed here: the message's delivery must claim it.
    ``content`` is the parsed message if this process built it. ``text`` may then be empty.
    """

    list: str
    text: str
    claim: Claim | None
    content: dict[str, Any] | None = None


class CommitReply(NamedTuple):
    """The reply to a commit.

    Attributes:
        word: the word of commit_round.lua.
        detail: the result of the commit, or the damaged key or field.
        prefetched: the message that the same write popped for this worker.
        follow_ups: ids of runs with follow-ups for their children, which the caller may do at once.
    """

    word: str
    detail: str = ""
    prefetched: Prefetched | None = None
    follow_ups: Sequence[str] = ()


class ChildrenStep(NamedTuple):
    """The next step for a run's children.

    Attributes:
        word: the word of reconcile_children.lua.
        group: the group whose children may be started.
        first: the place of the first of these.
        nonce: the parent's nonce.
        room: the number of children that may be started.
        plan: the two texts of the plan that describe them.
        walk: with ``start``, the position to continue at. For other words, ``start`` is the damaged
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


class ClaimRefused(NamedTuple):
    """A claim that was refused: the reply's first word, and a detail."""

    word: str
    detail: str = ""


@dataclass(frozen=True)
class SweepReply:
    """The result of one sweep.

    Attributes:
        report: ``(run_id, word)`` of each run that was examined.
        handed: ``(list, message)`` of each message that the caller must publish. Empty without an
            outbox.
        unmade: queue, epoch, step and phase of each run whose message the caller must build for the
            next sweep, by run id.
        calls: id and epoch of each ended run whose ``on_end`` call is late.
        follow_ups: ids of runs with follow-ups for their children, which the caller must do.
        due_in: ms until the next run is due. None if no run is, or if another sweep was too recent.
    """

    report: list[tuple[str, str]]
    handed: list[tuple[str, str]]
    unmade: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)
    due_in: int | None = field(default=None, compare=False)


class Continuation(NamedTuple):
    """The next round's lease, for a run with affinity.

    It has the token, the time of the claim (ms), and three stored fields of the run.
    """

    token: str
    now: int
    lease_until: str
    number: str
    round_until: str | None = None


def known_flows(flows: Iterable[str]) -> str:
    """Return flow names as text for a script's search.

    The script (parts/grant.lua) searches it for a run's flow.
    """
    return f",{','.join(flows)},"


class StoredSignal(NamedTuple):
    """A stored signal: its number among signals of all names, time in ms, sender, and JSON.

    The JSON is empty if the signal was moved to a later run of its topic. Readers leave it out.
    """

    order: int
    at: int
    by: str
    payload: str


def signal_of(text: str) -> StoredSignal:
    """Return the signal that a mailbox's field describes.

    Raises:
        ValueError: ``text`` describes no signal.
    """
    order, at, rest = text.split("\n", 2)
    # The sender's name may have line breaks. JSON has none.
    by, separator, payload = rest.rpartition("\n")
    if not separator:
        raise ValueError("expected four lines: order, time, sender and payload")
    return StoredSignal(int(order), int(at), by, payload)
