"""A model's view of a command: the text of its docstring, and the description of each argument."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from perdure import ControllerExecutorFlow, RoundContext, command
from perdure.flows.commands.command import spec_of


def google(city: str, days: int = 1, **more: Any) -> None:
    """Ask for the price of a flight.

    The price is that of today.
    It has two lines.

    Args:
        city: where to,
            by its English name.
        days (int, optional): how long: at most 30.
        **more: what else
          the airline wants.

    Returns:
        days: not an argument.
    """


def numpy(city: str, days: int = 1, **more: Any) -> None:
    """Ask for the price of a flight.

    The price is that of today.
    It has two lines.

    Parameters
    ----------
    city : str
        where to,
        by its English name.
    days : int, optional
        how long: at most 30.
    **more
        what else the airline wants.

    Returns
    -------
    days : int
        not an argument.
    """


def rest(city: str, days: int = 1, **more: Any) -> None:
    """Ask for the price of a flight.

    The price is that of today.
    It has two lines.

    :param str city: where to,
        by its English name.
    :param days: how long: at most 30.
    :type days: int
    :param more: what else the airline wants.
    :returns: days, not an argument.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_each_style_describes_the_command_and_its_arguments(function: Any) -> None:
    schema = spec_of(function).schema()
    assert schema["description"] == (
        "Ask for the price of a flight.\n\nThe price is that of today.\nIt has two lines."
    )
    properties = schema["parameters"]["properties"]
    assert properties["city"]["description"] == "where to, by its English name."
    assert properties["days"]["description"] == "how long: at most 30."


def test_a_docstring_without_sections_is_the_description_as_a_whole() -> None:
    def search(query: str) -> None:
        """Search the web. Note: slow.

        Example:
            search("cats")
        """

    schema = spec_of(search).schema()
    assert schema["description"] == ('Search the web. Note: slow.\n\nExample:\n    search("cats")')
    assert "description" not in schema["parameters"]["properties"]["query"]


def test_several_names_share_a_description_and_an_annotation_has_precedence() -> None:
    def move(x: int, y: int, z: Annotated[int, Field(description="height")] = 0) -> None:
        """Move.

        Args:
            x, y: a place on the ground.
            z: not this.
            unknown: not an argument.
        """

    properties = spec_of(move).schema()["parameters"]["properties"]
    assert [properties[name]["description"] for name in "xyz"] == [
        "a place on the ground.",
        "a place on the ground.",
        "height",
    ]


class Shop(ControllerExecutorFlow):
    def decide(self, context: RoundContext) -> Any:
        raise NotImplementedError

    @command
    def buy(self, context: RoundContext, thing: str) -> None:
        """
        Buy a thing.

        Args:
            context: of the round.
            thing: what to buy.
        """


def test_a_method_is_described_like_a_function_and_its_context_is_no_argument() -> None:
    [buy, _] = Shop().schemas()
    assert buy["description"] == "Buy a thing."
    assert list(buy["parameters"]["properties"]) == ["thing"]
    assert buy["parameters"]["properties"]["thing"]["description"] == "what to buy."


def test_a_command_without_a_docstring_has_no_description() -> None:
    def silent(x: int) -> None: ...

    assert spec_of(silent).description == ""
