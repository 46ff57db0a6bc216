"""Language models as controllers. It needs the extra ``ai``: ``pip install 'perdure[ai]'``."""

from __future__ import annotations

from perdure.flows.controllers.model import ModelController

__all__ = ["ModelController"]
