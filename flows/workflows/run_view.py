"""RunView: what the function of a workflow sees of its run and of its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from perdure.flows.core.files import File
from perdure.flows.core.thread_messages import ThreadMessage
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.function_context import visible_context
from perdure.flows.workflows.journal import JournalEntry, Kind
from perdure.flows.workflows.requests import Request


class Script(Protocol):
    """The interface that ``BaseSteps`` needs of the running function and its journal."""

    @property
    def context(self) -> RoundContext: ...
    @property
    def known(self) -> Mapping[str, JournalEntry]: ...
    def is_replaying(self) -> bool: ...
    def seed(self) -> str: ...
    def check_open(self, what: str) -> None: ...
    def place_ahead(self, kind: Kind, name: str, of: str) -> int | None: ...
    def mark(self, entry: JournalEntry) -> None: ...
    def ask_for(self, requests: Sequence[Request]) -> Any: ...


class RunView:
    """The part of ``Steps`` without requests: facts of the run, and the place in the journal."""

    def __init__(self, script: Script) -> None:
        self._script = script

    @property
    def context(self) -> RoundContext:
        """The context of the current round, or in a step the step's own. Each round has its own.

        In the workflow's function, methods that count once in each round raise InvalidFlow, such as
        ``once`` and ``wait_for``: the function is run again in later rounds (``INSTEAD``).
        """
        return visible_context(self._script.context)

    @property
    def goal(self) -> str:
        """The goal, as submitted."""
        return self._script.context.goal

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs, after validation."""
        return self._script.context.inputs

    @property
    def deps(self) -> Any:
        """The value that the workflow's lifespan has opened in this process. See ``lifespan``."""
        return self._script.context.deps

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._script.context.run_id

    def earlier(self) -> list[ThreadMessage]:
        """Return the messages of earlier runs in the thread, oldest first.

        They are the same whenever the function is run again (``RoundContext.conversation``).
        """
        return self._script.context.conversation

    def files(self) -> list[File]:
        """Return the submitted files with their contents."""
        context = self._script.context
        return [context.file(each.name) for each in context.files]

    def is_ahead(self, kind: Kind, name: str, of: str) -> bool:
        """Return whether the journal has a matching entry that the function has not requested yet.

        Args:
            name: the entry's key without its number.
            of: the digest of the arguments.
        """
        return self.place_ahead(kind, name, of) is not None

    def place_ahead(self, kind: Kind, name: str, of: str) -> int | None:
        """Return the place of the first matching entry that the function has not requested yet.

        Args:
            name: the entry's key without its number.
            of: the digest of the arguments.

        Returns:
            The place, counted from 0 at the first entry that the function has not received yet. A
            step that the round has begun comes after all entries. None if no entry matches.
        """
        return self._script.place_ahead(kind, name, of)

    def once_in_round(self, name: str, function: Callable[[], Any]) -> Any:
        """Return a result that each attempt of this round gets. Later rounds do not get it.

        Args:
            name: the name of the record (``RoundContext.once``).
            function: returns JSON data.
        """
        return self._script.context.once(name, function)

    def is_replaying(self) -> bool:
        """Return whether the function has not yet reached the point where the run is."""
        return self._script.is_replaying()

    def is_answered_ahead(self, name: str) -> bool:
        """Return whether a person has answered a question that the function has not asked yet.

        Args:
            name: the key of the question, without its number.
        """
        context = self._script.context
        asked = context.asked
        if not (context.answered and isinstance(asked, Mapping)):
            return False
        key = str(asked.get("asks", ""))
        return (key == name or key.startswith(f"{name}.")) and key not in self._script.known
