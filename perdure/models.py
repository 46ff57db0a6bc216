"""Language models as controllers. It needs the extra ``ai``: ``pip install 'perdure[ai]'``."""

from __future__ import annotations

from perdure.flows.agents.model_controller import ModelController

__all__ = ["ModelController"]
