"""Journal: what a round writes down before its commit, so that the next attempt knows what may have happened."""

from __future__ import annotations

from collections.abc import Mapping


class Journal:
    """Intents, and results known early, of one step. This one keeps them in the process; the engine's keeps them with the run.

    Attributes:
        intent: the idempotency key of the command that an earlier attempt of this step set out to carry out; None for none.
        recorded: what ``context.once`` has recorded in this step, as JSON texts by name.
    """

    def __init__(self, intent: str | None = None, recorded: Mapping[str, str] | None = None) -> None:
        self.intent = intent
        self.recorded = dict(recorded or {})

    def intend(self, key: str) -> None:
        """Write down that the command of this idempotency key is about to be carried out.

        Raises:
            RoundStopped: this round has lost its lease, so it must not carry out anything.
        """
        self.intent = key

    def record(self, name: str, text: str) -> str:
        """Write down a result, unless one of this name is there; returns the one that is kept.

        Raises:
            RoundStopped: the run has left this step.
        """
        return self.recorded.setdefault(name, text)
