"""Flows that can harm a worker: one declares shell commands, one kills its worker."""

from __future__ import annotations

import os
import signal
from typing import Any

from perdure import CircularFlow, Node, RoundContext, register


@register("shelling")
class Shelling(CircularFlow):
    """Says that it runs shell commands of its submitter; workers play it only if it is enabled."""

    topology = (Node("Controller", "end", role="controller"),)
    runs_shell = True

    def end(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {self.early_exit_key: True, "answer": "played", "status": "finished"}


@register("killer")
class Killer(CircularFlow):
    """Its round is the death of its worker."""

    topology = (Node("Controller", "kill", role="controller"),)

    def kill(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody lives to see this")
