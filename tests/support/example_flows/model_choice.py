"""A flow with several models, a choice of models, and a small window."""

from __future__ import annotations

from perdure import register
from perdure.flows.controllers.model import ModelController
from tests.support.example_flows.model import Adding


@register("choosing")
class Choosing(Adding):
    """A model adds numbers, of which it sees the last eight."""

    controller = ModelController(
        models=["a", "b"], allowed_models=["b", "c"], window={"first": 1, "last": 8}
    )
