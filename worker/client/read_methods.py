"""ReadMethods: the methods of all clients that are derived from operations and read runs.

They are not in ``Methods``, because a command that only reads runs starts faster without the other
operations.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from typing import Any, TypeVar

from perdure.worker.operations import inbox, run_events, run_files, run_lists, run_reads
from perdure.worker.operations.operation import Operation, method

R = TypeVar("R")


class ReadMethods(metaclass=ABCMeta):
    """The derived methods that read runs. A client's ``_perform`` carries the operations out."""

    @abstractmethod
    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R:
        """Carry an operation out, and return its result.

        Args:
            bound: The arguments of the operation, with defaults.
        """

    get = method(run_reads.get)
    runs = method(run_lists.runs)
    ids_beginning = method(run_lists.ids_beginning)
    status_counts = method(run_lists.status_counts)
    error_groups = method(run_lists.error_groups)

    events = method(run_events.events)
    stream = method(run_events.stream)
    latest_events = method(run_events.latest_events)

    transcript = method(run_reads.transcript)
    children = method(run_reads.children)
    tree = method(run_reads.tree)
    prompt = method(run_reads.prompt)
    artifacts = method(run_files.artifacts)
    artifact = method(run_files.artifact)
    files = method(run_files.files)
    file = method(run_files.file)
    why = method(run_reads.why)
    inbox = method(inbox.inbox)
    unread = method(run_reads.unread)
    values = method(run_reads.values)
    value = method(run_reads.value)
