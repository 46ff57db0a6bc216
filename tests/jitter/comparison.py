"""The comparison of passes: which tests change their verdict under a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.jitter.execution import Pass
from tests.jitter.faults import Fault, measures_pace


@dataclass(frozen=True, slots=True)
class Change:
    """A test that has another verdict under a fault: both verdicts, and pytest's text."""

    test: str
    before: str
    under: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a fault in all its passes."""

    fault: Fault
    passes: Sequence[Pass]
    changes: Sequence[Change]

    @property
    def counts(self) -> Counter[str]:
        """How many verdicts of each kind there were."""
        return Counter(verdict for each in self.passes for verdict in each.verdicts.values())

    @property
    def seconds(self) -> float:
        """Seconds of all passes."""
        return sum(each.seconds for each in self.passes)

    @property
    def pauses(self) -> Counter[str]:
        """How many pauses were made, by place."""
        return sum((Counter(each.pauses) for each in self.passes), Counter())

    @property
    def processes(self) -> int:
        """How many processes made a pause."""
        return sum(each.processes for each in self.passes)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "fault": self.fault.name,
            "seconds": round(self.seconds, 1),
            "verdicts": dict(self.counts),
            "pauses": dict(self.pauses),
            "processes": self.processes,
            "load_cpu_seconds": round(sum(each.cpu_seconds for each in self.passes), 1),
            "changes": [
                {"test": each.test, "before": each.before, "under": each.under, "text": each.text}
                for each in self.changes
            ],
        }


def find_flaky(undisturbed: Sequence[Pass]) -> dict[str, list[str]]:
    """Return tests that fail, or change their verdict, without any fault, with their verdicts."""
    verdicts: dict[str, list[str]] = {}
    for each in undisturbed:
        for test, verdict in each.verdicts.items():
            verdicts.setdefault(test, []).append(verdict)
    return {
        test: words
        for test, words in verdicts.items()
        if len(set(words)) > 1 or words[0] not in ("passed", "skipped")
    }


def find_changes(
    undisturbed: Sequence[Pass], passes: Sequence[Pass], pace: Sequence[str] = ()
) -> list[Change]:
    """Return the tests whose verdict changes in at least one of the passes under a fault.

    Flaky tests are left out: their verdict says nothing. A test that is not played at all has
    changed, unless it measures pace.
    """
    flaky = find_flaky(undisturbed)
    steady: Mapping[str, str] = {
        test: verdict
        for each in undisturbed
        for test, verdict in each.verdicts.items()
        if test not in flaky and not measures_pace(test, pace)
    }
    changes = {}
    for each in passes:
        for test, before in steady.items():
            under = each.verdicts.get(test, "not played")
            if under != before:
                changes[test] = Change(test, before, under, each.texts.get(test, ""))
    return list(changes.values())
