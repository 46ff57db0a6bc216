"""The faults under which tests are played again, and the tests that are left out of them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: The file with the tests that measure pace by design. They are not played under faults.
PACE = Path(__file__).with_name("pace.toml")
#: Seconds of one pause of a process that runs rounds. It is longer than a poll of any test, and
#: shorter than every lease.
PAUSE = 0.25
#: Joins the names of faults that are played at the same time.
AND = "+"


@dataclass(frozen=True, slots=True)
class Fault:
    """Pauses in the processes of a test, load on the machine, another order of the tests, or all.

    Attributes:
        name: Its name for `--faults`.
        about: One line for `--list`.
        pauses: Seconds of one pause, by place (see ``injection/sitecustomize.py``).
        has_load: Whether all cores are kept busy.
        shuffles: Whether the files, and the tests of each file, are played in a random order.
    """

    name: str
    about: str
    pauses: tuple[tuple[str, float], ...] = ()
    has_load: bool = False
    shuffles: bool = False

    def and_also(self, other: Fault) -> Fault:
        """Return the fault that combines this one with another."""
        return Fault(
            f"{self.name}{AND}{other.name}",
            f"{self.about}, and {other.about[0].lower()}{other.about[1:]}",
            tuple(dict([*self.pauses, *other.pauses]).items()),
            self.has_load or other.has_load,
            self.shuffles or other.shuffles,
        )


def pause_at(name: str, about: str) -> Fault:
    """Return the fault that pauses the first rounds of each run at one place."""
    return Fault(name, about, ((name, PAUSE),))


UNDISTURBED = Fault("undisturbed", "No fault")
LOAD = Fault("load", "All cores are kept busy", has_load=True)
SINGLE = {
    fault.name: fault
    for fault in (
        pause_at("behind-claim", "A process pauses between the claim of a round and its beginning"),
        pause_at("before-claim", "A process pauses before it claims a round"),
        pause_at("before-commit", "A process pauses before it commits a round"),
        pause_at("behind-commit", "A process pauses behind the commit of a round"),
        Fault(
            "late-looks",
            "Tests look late at what they wait for, and seldom",
            (("first-look", 0.3), ("next-look", 0.2)),
        ),
        Fault("other-order", "Tests are played in a random order", shuffles=True),
        LOAD,
    )
}
FAULTS = {
    **SINGLE,
    **{
        together.name: together
        for fault in SINGLE.values()
        if fault is not LOAD
        for together in [LOAD.and_also(fault)]
    },
}


def parse_faults(names: str) -> list[Fault]:
    """Return the faults of a list such as ``late-looks,load+behind-claim``.

    Raises:
        ValueError: A name is unknown.
    """
    return [parse_fault(name) for name in names.split(",")]


def parse_fault(name: str) -> Fault:
    """Return one fault by its name. Names that ``+`` joins are played at the same time."""
    fault: Fault | None = None
    for part in name.split(AND):
        if part not in SINGLE:
            raise ValueError(f"no fault is named {part!r}; there are {', '.join(SINGLE)}")
        fault = SINGLE[part] if fault is None else fault.and_also(SINGLE[part])
    assert fault is not None
    return fault


def read_pace() -> dict[str, str]:
    """Return the tests that measure pace by design, each with the reason."""
    return {str(test): str(reason) for test, reason in tomllib.loads(PACE.read_text()).items()}


def measures_pace(test: str, tests: Sequence[str]) -> bool:
    """Return whether a node id belongs to one of the tests that measure pace, in any case of it."""
    return test.partition("[")[0] in tests
