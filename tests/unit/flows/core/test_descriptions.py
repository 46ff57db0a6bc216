"""A flow's description of itself: the given one, else its docstring, and never that of the shape it
is made of.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    CircularFlow,
    ControllerExecutorFlow,
    InvalidFlow,
    Node,
    RoundContext,
)
from perdure.flows.rings.config import DESCRIPTION
from perdure.worker.domain.fleet import describe


class Told(ControllerExecutorFlow):
    """Orders what is
    missing.

    More for those who read code.
    """

    def decide(self, context: RoundContext) -> Any: ...


class Untold(ControllerExecutorFlow):
    def decide(self, context: RoundContext) -> Any: ...


class Named(ControllerExecutorFlow):
    """A docstring."""

    description = "Its own."

    def decide(self, context: RoundContext) -> Any: ...


class OfNamed(Named):
    pass


class Ring(CircularFlow):
    pass


def test_a_flow_is_described_by_its_docstring_else_by_nothing() -> None:
    assert describe(Told())["description"] == "Orders what is missing."
    assert describe(Untold())["description"] == "" and Ring.description == ""
    assert describe(Named())["description"] == describe(OfNamed())["description"] == "Its own."


def test_the_seeds_text_stays_with_the_bare_flow() -> None:
    assert ControllerExecutorFlow.description == DESCRIPTION


@pytest.mark.parametrize("expose", ["mcp", ["mcp", "smtp"], [1]])
def test_a_flow_is_exposed_to_known_protocols_only(expose: object) -> None:
    class Wrong(CircularFlow):
        topology = (Node("Controller", lambda state, context: {}, role="controller"),)

    with pytest.raises(InvalidFlow, match="expected a list of: mcp, openai"):
        Wrong(expose=expose)
