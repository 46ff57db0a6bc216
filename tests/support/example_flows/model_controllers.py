"""Flows whose controller is a model."""

from __future__ import annotations

import os
from urllib.request import urlopen

from perdure import ControllerExecutorFlow, RoundContext, command, register
from perdure.flows.controllers.model import ModelController

#: The URL to which a command reports that it is being carried out (``tests.support.chat_server``);
#: unset: no report.
ACTING = "HF_TEST_ACTING"


@register("adding")
class Adding(ControllerExecutorFlow):
    """A model adds numbers."""

    controller = ModelController(timeout_seconds=3, words="ask")
    max_rounds = 1_000

    @command(idempotent=True)
    def add(self, context: RoundContext, a: int, b: int) -> int:
        """The sum of two numbers."""
        if ACTING in os.environ:
            urlopen(f"{os.environ[ACTING]}/acting/{context.step}").close()
        return a + b


@register("patient_adding")
class PatientAdding(Adding):
    """The same, which waits longer for its model, and shows it less."""

    controller = ModelController(timeout_seconds=300, window={"first": 1, "last": 10})


@register("adding_in_words")
class AddingInWords(Adding):
    """The same with a model that calls no tools."""

    controller = ModelController(timeout_seconds=3, reply="json")


@register("adding_though_refused")
class AddingThoughRefused(Adding):
    """The same, which asks a person where the model refuses."""

    controller = ModelController(
        timeout_seconds=3, refusal="ask", price={"input": 1.0, "output": 10.0}
    )
    budgets = {"money": 1.0}  # noqa: RUF012


@register("answering")
class Answering(Adding):
    """The same, whose model may answer in words."""

    controller = ModelController(timeout_seconds=3)


@register("consulting")
class Consulting(Adding):
    """The same; a person answers the model's words."""

    controller = ModelController(timeout_seconds=3, words="person")


@register("choosing_model")
class Choosing(Adding):
    """A model adds numbers, of which it sees the last eight."""

    controller = ModelController(
        models=["a", "b"], allowed_models=["b", "c"], window={"first": 1, "last": 8}
    )


@register("compacting")
class Compacting(Adding):
    """The same with one model, which writes summaries of the turns outside its window."""

    controller = ModelController(window={"first": 1, "last": 8}, compaction=True)
