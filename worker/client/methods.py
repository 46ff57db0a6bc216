"""The methods that all clients derive from the operations of ``worker/operations``."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from typing import Any, TypeVar

from perdure.worker.operations import fleet, stuck
from perdure.worker.operations.operation import Operation, method

R = TypeVar("R")


class Methods(metaclass=ABCMeta):
    """Derived methods. A client decides with ``_perform`` how it carries an operation out."""

    @abstractmethod
    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R:
        """Carry an operation out, and return its result."""

    stuck = method(stuck.stuck)

    flows = method(fleet.flows)
    pause_flow = method(fleet.pause_flow)
    unpause_flow = method(fleet.unpause_flow)
    paused_flows = method(fleet.paused_flows)
    workers = method(fleet.workers)
    queues = method(fleet.queues)
    dead_letters = method(fleet.dead_letters)
    doctor = method(fleet.doctor)
