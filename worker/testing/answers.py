"""Answers to the interrupts of a story."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from perdure.worker.testing.errors import LabError
from perdure.worker.testing.story import Question, short


class Unset:
    """Marker of an omitted value. None is a valid answer."""


UNSET: Final = Unset()


@dataclass(frozen=True)
class Answer:
    """The answer to one interrupt of a run.

    Attributes:
        value: The answer. None if the run is only resumed.
        given: False if the test has no answer. The run then waits for the deadline of the
            interrupt.
        told: The text about the answer for the trace.
    """

    value: Any = None
    given: bool = True
    told: str = "a person lets it go on"


@dataclass(frozen=True)
class Answers:
    """A test's answers to all interrupts.

    Attributes:
        source: One answer for all interrupts, or a function of ``Question``. ``UNSET`` if the test
            has no answer.
    """

    source: Any | Callable[[Question], Any] | Unset = UNSET

    def to(self, fields: Mapping[str, str]) -> Answer:
        """Return the test's answer to the open interrupt of a run.

        If the test has no answer, a pause before or after a node is only resumed, and a node's
        question waits for its deadline. A pause after a node is only resumed in any case.

        Args:
            fields: The stored fields of the run.

        Raises:
            LabError: A node asks without a deadline, and the test has no answer.
        """
        question = Question(
            fields["i_node"],
            int(fields["step"]),
            fields["i_reason"],
            json.loads(fields.get("i_data", "null")),
        )
        if not isinstance(self.source, Unset):
            value = self.source(question) if callable(self.source) else self.source
            # A pause after a node asks nothing, so the run is only resumed.
            if fields["i_kind"] == "after":
                return Answer()
            return Answer(value, told=f"a person answers {short(value)}")
        if fields["i_kind"] != "node":
            return Answer()
        if "i_until" in fields:
            return Answer(given=False)
        is_doubt = isinstance(question.data, dict) and "in_doubt" in question.data
        hint = ", or give the command a policy: @command(in_doubt=...)" if is_doubt else ""
        raise LabError(
            f"node {question.node} asks at step {question.step}: {question.reason!r}, "
            f"and there is no answer. Pass answers=..., a value or a function of the question{hint}"
        )
