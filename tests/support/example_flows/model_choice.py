"""Flows with several models, a choice of models, and small windows."""

from __future__ import annotations

from perdure import register
from perdure.flows.controllers.model import ModelController
from tests.support.example_flows.model import Adding


@register("choosing_model")
class Choosing(Adding):
    """A model adds numbers, of which it sees the last eight."""

    controller = ModelController(
        models=["a", "b"], allowed_models=["b", "c"], window={"first": 1, "last": 8}
    )


@register("compacting")
class Compacting(Adding):
    """The same with one model, which writes summaries of what its window leaves out."""

    controller = ModelController(window={"first": 1, "last": 8}, compaction=True)
