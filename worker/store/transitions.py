"""The state server as one object, with all transitions and reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.events import EventReads
from perdure.worker.store.family import Family
from perdure.worker.store.fleet import FleetRecords
from perdure.worker.store.queries import Queries
from perdure.worker.store.reads import RunFields
from perdure.worker.store.rounds import RoundTransitions
from perdure.worker.store.runs import RunTransitions
from perdure.worker.store.signals import SignalTransitions

if TYPE_CHECKING:
    from perdure.worker.store.metrics import MetricRecords
    from perdure.worker.store.tables import Pauses


class Store(StoreConnection):
    """The state server, for the keys of one prefix.

    Args:
        url: redis://, rediss://, unix:// or redis+sentinel://.
        prefix: the beginning of each key.
        outbox: whether the broker is another server. Then the caller must publish the messages that
            the scripts return.
        replication: how many replicas must have the write of a transition in ``ACKNOWLEDGED``
            before the transition returns. By default 0.

    Raises:
        StoreUnavailable: from every method, if the server does not answer.
        NotReplicated: the transition was executed, but too few replicas had its write in time.
    """

    @cached_property
    def rounds(self) -> RoundTransitions:
        """The transitions of a round."""
        return RoundTransitions(self, self.reads)

    @cached_property
    def runs(self) -> RunTransitions:
        """The transitions of a run, from submission to deletion."""
        return RunTransitions(self)

    @cached_property
    def reads(self) -> RunFields:
        """Reads of stored runs."""
        return RunFields(self)

    @cached_property
    def lists(self) -> Queries:
        """Lists and counts of runs."""
        return Queries(self, self.reads)

    @cached_property
    def events(self) -> EventReads:
        """Reads of the events of runs."""
        return EventReads(self)

    @cached_property
    def family(self) -> Family:
        """The child runs of a run."""
        return Family(self, self.events, self.reads)

    @cached_property
    def signals(self) -> SignalTransitions:
        """The transitions and reads of signals, topics and hooks."""
        return SignalTransitions(self)

    @cached_property
    def fleet(self) -> FleetRecords:
        """Announcements of workers, and the sweep."""
        return FleetRecords(self)

    @cached_property
    def pauses(self) -> Pauses:
        """The table of paused flows on the state server."""
        from perdure.worker.store.tables import Pauses  # Few programs need these two.

        return Pauses(self)

    @cached_property
    def figures(self) -> MetricRecords:
        """The totals of the metrics on the state server."""
        from perdure.worker.store.metrics import MetricRecords

        return MetricRecords(self)
