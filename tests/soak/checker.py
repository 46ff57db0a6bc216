"""Checker: is this history possible for Perdure?

A verdict, with the shortest witness of each law that is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.soak import family_laws  # noqa: F401 -- registers its laws
from tests.soak.history import History
from tests.soak.laws import LAWS, Violation

#: This share of the attempts must have succeeded, or the history proves nothing: a server that is
#: down loses nothing.
ENOUGH = 0.5


@dataclass(frozen=True)
class Verdict:
    """The checker's verdict.

    Attributes:
        violations: every law broken, every time; the one with the shortest witness first.
        too_little: why the history proves nothing, though no law is broken; empty where it proves
            something.
    """

    violations: Sequence[Violation]
    too_little: Sequence[str]

    @property
    def valid(self) -> bool:
        """Whether nothing is broken, and enough happened."""
        return not self.violations and not self.too_little

    def __str__(self) -> str:
        if self.valid:
            return "valid: no law is broken"
        lines = []
        counts = Counter(violation.law for violation in self.violations)
        for name, times in counts.items():
            first = next(violation for violation in self.violations if violation.law == name)
            lines.append(f"BROKEN {times} times: {name}")
            lines.append(f"  run {first.run}: {first.text}")
            lines += [f"    {record}" for record in first.witness]
        lines += [f"TOO LITTLE to say valid: {reason}" for reason in self.too_little]
        return "\n".join(lines)


def check(history: History) -> Verdict:
    """Check a history by every law."""
    violations = [violation for judged in LAWS.values() for violation in judged(history)]
    return Verdict(
        sorted(violations, key=lambda violation: len(violation.witness)), list(_too_little(history))
    )


def _too_little(history: History) -> Iterator[str]:
    submits = [call for call in history.calls if call.name == "submit"]
    acknowledged = [call for call in submits if call.outcome == "acknowledged"]
    if not submits or len(acknowledged) < ENOUGH * len(submits):
        yield f"{len(acknowledged)} of {len(submits)} submits were acknowledged"
    children = {child.run for child in history.children}
    completed = [
        end for end in history.ends if end.status == "completed" and end.run not in children
    ]
    if not completed or len(completed) < ENOUGH * len(acknowledged):
        yield f"{len(completed)} of {len(acknowledged)} runs completed"
    heard = [family for family in history.families if family.answers is not None]
    if len(heard) < ENOUGH * len(history.families):
        yield f"{len(heard)} of {len(history.families)} families completed"
    if not history.reads:
        yield "nobody read"
    fired = {fault.kind for fault in history.faults if fault.fired}
    for kind in sorted(history.asked_faults - fired):
        tried = sum(fault.kind == kind for fault in history.faults)
        yield f"the fault {kind!r} never fired ({tried} tries)"


__all__ = ["Verdict", "check"]
