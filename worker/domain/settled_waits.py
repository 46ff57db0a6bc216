"""Settlements of rounds that wait, or that a used-up budget blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.worker.domain.record import GROUPS, Record, version_of
from perdure.worker.domain.settle import pause_here
from perdure.worker.domain.settlement import Settlement, milliseconds

if TYPE_CHECKING:
    from perdure.flows.rounds.waits import Wait
    from perdure.worker.domain.budget import Shortage

#: Seconds after which a parked parent checks its children. Each further check is twice as late.
LOOK = 30.0
#: Seconds after which a run that waits for more of a budget checks for it. Each further check is
#: twice as late.
LOOK_AT_BUDGET = 30.0


def park(record: Record, wait: Wait, over: str) -> Settlement:
    """Return the settlement that parks a run whose node waits.

    If the node starts a group of children, the settlement holds the group's plan.

    Args:
        wait: The signals, children or time that the node waits for.
        over: The text that the sweep records if the wait times out.
    """
    lines = [f"{name} {count}" for name, count in wait.signals.items()]
    options: dict[str, str | int] = {"wait": wait.name, "wait_over": over}
    names = [*record.fields, "wait"]
    plan: tuple[str, ...] = ()
    if wait.children is not None:
        group, need = wait.children, wait.children.need
        lines.append(f":{group.name} {need.good} {need.bad} {need.ended}")
        names.append(GROUPS)
        options["look"] = milliseconds(LOOK)
        if group.plan is not None:
            plan = group.plan
            options |= {
                "group": group.name,
                "total": group.total,
                "limit": group.options.max_concurrency,
                "policy": group.options.policy,
            }
            if group.options.on_failure == "hold":
                options["hold"] = 1
            if group.options.kept:
                options["kept"] = 1
    options["wait_for"] = "\n".join(lines)
    if wait.seconds is not None:
        options["wait_ms"] = milliseconds(wait.seconds)
    return Settlement("park", {"schema": version_of(names)}, plan, options=options)


def hold_up(record: Record, shortage: Shortage) -> Settlement:
    """Return the settlement of a round that a used-up budget blocks.

    The run asks a person to add to the budget. But if the budget belongs to a run above, and
    another run already asks for this, the run waits without an interrupt of its own.
    """
    settlement = pause_here(record, record.node, shortage.interrupt)
    fields = {**settlement.fields, "i_kind": "budget", "i_budget": shortage.name}
    if not shortage.is_own:
        fields["i_payer"] = shortage.run_id
    options: dict[str, str | int] = {
        "short": f"{shortage.run_id} {shortage.nonce} {shortage.name}",
        "added": shortage.added,
        "look": milliseconds(LOOK_AT_BUDGET),
    }
    return settlement._replace(kind="short", fields=fields, options=options)
