"""Round: one attempt of a round, from claim to commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from perdure.worker.domain.record import Record
from perdure.worker.domain.settlement import Beside
from perdure.worker.engine.heartbeat import Lease
from perdure.worker.store import Claim

if TYPE_CHECKING:
    from perdure.flows.core.names import Role
    from perdure.flows.rounds.context import RoundContext
    from perdure.flows.rounds.flow import Flow
    from perdure.worker.domain.budget import BudgetAbove

#: The nodes of a round whose flow is not made yet, or lacks the node of the round.
NO_NODES: Mapping[str, Role] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class Round:
    """One attempt of a claimed round.

    Attributes:
        record: The run, as the claim read it.
        claim: The claim of the attempt.
        lease: The lease that the heartbeat extends.
        flow, context: The flow, and the context of its node. ``Admission.load`` sets both.
        above: The budgets of runs above this run that limit it, too.
        nodes: The nodes of the flow with their roles. Empty if the flow lacks the round's node.
        beside: The writes of the round's commit beside its settlement.
    """

    record: Record
    claim: Claim
    lease: Lease
    flow: Flow = field(init=False)
    context: RoundContext = field(init=False)
    above: tuple[BudgetAbove, ...] = ()
    nodes: Mapping[str, Role] = field(default_factory=lambda: NO_NODES)
    beside: Beside = field(default_factory=Beside)
