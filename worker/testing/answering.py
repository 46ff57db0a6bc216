"""Answers: what is answered to the interrupts of a story."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker.testing.failures import LabError
from worker.testing.story import Question, short


class Unset:
    """Nothing was given; None is an answer like any other."""


UNSET: Final = Unset()


@dataclass(frozen=True)
class Answer:
    """``given`` is False where the deadline shall answer."""

    value: Any = None
    given: bool = True
    told: str = "a person lets it go on"


@dataclass(frozen=True)
class Answers:
    """One answer for all, or a function of the ``Question``."""

    source: Any | Callable[[Question], Any] | Unset = UNSET

    def to(self, fields: Mapping[str, str]) -> Answer:
        """The answer to the open interrupt of a run; raises LabError where there is none."""
        asked = Question(fields["i_node"], int(fields["step"]), fields["i_reason"], json.loads(fields.get("i_data", "null")))
        if not isinstance(self.source, Unset):
            value = self.source(asked) if callable(self.source) else self.source
            if fields["i_kind"] == "after":  # nobody asks anything there: the run is only let go on
                return Answer()
            return Answer(value, told=f"a person answers {short(value)}")
        if fields["i_kind"] != "node":
            return Answer()
        if "i_until" in fields:
            return Answer(given=False)
        raise LabError(
            f"node {asked.node} asks at step {asked.step}: {asked.reason!r}, and nobody answers. "
            "Pass answers=..., a value or a function of the question"
        )
