"""A test's signals to the run of a story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.flows.core.names import is_name
from perdure.worker.testing.errors import LabError


@dataclass(frozen=True)
class LabSignals:
    """The payloads of a test's signals.

    Attributes:
        payloads: Lists of payloads by the name of the signal, in the order in which they are sent.

    Raises:
        LabError: A name is not valid, or a value is not a list.
    """

    payloads: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        for name, given in self.payloads.items():
            is_list = isinstance(given, Sequence) and not isinstance(given, str)
            if not is_name(name) or not is_list:
                raise LabError(
                    "signals: expected names with lists of payloads, as in "
                    f"signals={{'paid': [12]}}; got {name!r}: {given!r}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signals, in the test's order."""
        return tuple(self.payloads)

    def of(self, name: str) -> Sequence[Any]:
        """Return the payloads of the signals with this name, in the order of sending."""
        return self.payloads.get(name, ())

    def missing(
        self, fields: Mapping[str, str], names: Sequence[str], sent: Mapping[str, int]
    ) -> LabError:
        """Return the error for a run that waits for a signal that the test does not send.

        Args:
            fields: The stored fields of the waiting run.
            names: The names of the signals that would end the wait.
            sent: How many signals were sent until now, by name.
        """
        given = ", ".join(f"{name} {sent.get(name, 0)} times" for name in names)
        return LabError(
            f"node {fields.get('current_node')} waits at step {fields.get('step')} for the signal "
            f"{' or '.join(names)}, and nothing sends it (sent so far: {given}). "
            f"Pass signals={{{names[0]!r}: [payload, ...]}}"
        )
