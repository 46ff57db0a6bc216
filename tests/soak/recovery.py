"""Recovery: from the moment a worker lost its rounds until the next try of each began, by the kind
of fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.soak.faults import GROUND, older_version
from tests.soak.history import Call, Effect, Fault

#: After a warm shutdown the round in hand is mostly finished, so the recovery is the run's next
#: try, of any round.
ANY_ROUND = frozenset({"warm_shutdown"})
#: Faults that make a recovery take longer without a part of the lost worker. (An older worker sends
#: runs it does not know to wait.)
DISTURBING = frozenset(kind.__name__ for kind in (*GROUND, older_version))
#: A fault goes on to be felt for so long after it is mended: leases, and reconnecting.
AFTERMATH = 5.0


@dataclass(frozen=True)
class Recovery:
    """One round that was in flight when its process was lost.

    ``alone``: all else was well meanwhile, and just before.
    """

    kind: str
    run: str
    step: int
    at: float
    seconds: float
    alone: bool


def recoveries(
    faults: Sequence[Fault],
    struck: Mapping[Fault, Sequence[int]],
    effects: Iterable[Effect],
    calls: Iterable[Call],
) -> list[Recovery]:
    """Compute the recoveries after each fault in ``struck``, which names the processes that it cost
    their rounds.

    Left out are runs that a client steered meanwhile: those may stand still because they were asked
    to.
    """
    tries: dict[str, list[Effect]] = defaultdict(list)
    done: dict[tuple[str, int, int], float] = {}
    for effect in effects:
        if effect.what == "tried":
            tries[effect.run].append(effect)
        elif effect.what == "applied":
            done[effect.run, effect.step, effect.attempt] = effect.at
    steered: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.name != "submit":
            steered[call.run].append(call)
    found = []
    for fault, pids in struck.items():
        lost = set(pids)
        for run, all_tries in tries.items():
            before = [each for each in all_tries if each.at <= fault.at]
            after = [each for each in all_tries if each.at > fault.at]
            if not before or not after or before[-1].pid not in lost:
                continue
            last = before[-1]
            if fault.kind in ANY_ROUND:
                if done.get((run, last.step, last.attempt), fault.at) < fault.at:
                    continue  # the round was over, and its run stands in line
            else:
                after = [each for each in after if each.step == last.step]
            if not after or after[0].pid in lost:
                continue
            again = after[0].at
            if any(last.at - 1.0 <= call.answered and call.asked <= again for call in steered[run]):
                continue
            others = (other for other in faults if other.kind in DISTURBING and other.fired)
            alone = not any(
                other.at <= again and (other.over or other.at) + AFTERMATH >= fault.at
                for other in others
            )
            found.append(Recovery(fault.kind, run, last.step, fault.at, again - fault.at, alone))
    return found


def share(values: Iterable[float], part: float) -> float:
    """Return the value that the share ``part`` (0 to 1) does not exceed; nan without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")
