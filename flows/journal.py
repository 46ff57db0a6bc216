"""Journal: what a round writes down before its commit, so that the next attempt knows what may have happened."""

from __future__ import annotations

from collections.abc import Mapping


class Journal:
    """Intents, and results known early, of one step. This one keeps them in the process; the engine's keeps them with the run.

    Args:
        intents: what earlier attempts of this step set out to carry out: a line each, the command's idempotency key first.
        recorded: what ``context.once`` has recorded in this step, as JSON texts by name.

    Attributes:
        begun: when (``began``, a time as ISO text) and by which ``worker`` an earlier attempt wrote the last intent, as far as is known.
        is_repeatable: whether all commands that this attempt has begun are idempotent; None: it has begun none.
        carried_out: the name of the command that this attempt has begun to carry out; None if it only asked, was refused, or says itself
            that it did nothing.
    """

    carried_out: str | None = None
    is_repeatable: bool | None = None
    begun: Mapping[str, str] = {}

    def __init__(self, intents: str = "", recorded: Mapping[str, str] | None = None) -> None:
        self.recorded = dict(recorded or {})
        self._kept = intents
        self._earlier = intents.split("\n") if intents else []  # JSON may hold what else ends a line
        self._lines = list(self._earlier)

    @property
    def text(self) -> str:
        """The intents as they stand, a line each."""
        return "\n".join(self._lines)

    @property
    def is_behind(self) -> bool:
        """Whether what is kept is not what stands: an intent was taken back."""
        return self.text != self._kept

    @property
    def is_harmless(self) -> bool:
        """Return whether this attempt may be broken off without a doubt: it began idempotent commands alone, and no intent stands."""
        return self.is_repeatable is True and not self._lines

    def in_doubt(self, key: str) -> str | None:
        """The line with which an earlier attempt set out to carry out the command of this key; None where none did."""
        return next((line for line in self._earlier if line.partition(" ")[0] == key), None)

    def intend(self, line: str) -> None:
        """Write down what is about to be carried out.

        Raises:
            RoundStopped: this round has lost its lease, so it must not carry out anything.
        """
        if line not in self._lines:
            self._lines.append(line)
        self._kept = self.text  # perhaps even where the answer is lost
        try:
            self.write(self.text)
        except Exception:
            self.withdraw(line.partition(" ")[0])  # nothing is begun without leave
            raise

    def withdraw(self, key: str) -> None:
        """The command of this key has not been carried out, as it says itself: the round's end takes the intent back."""
        # That this attempt has not carried it out says nothing of one before.
        self._lines = [line for line in self._lines if line in self._earlier or line.partition(" ")[0] != key]

    def write(self, text: str) -> None:
        """Keep the intents; see ``intend``."""

    def record(self, name: str, text: str) -> str:
        """Write down a result, unless one of this name is there; returns the one that is kept.

        Raises:
            RoundStopped: the run has left this step.
        """
        return self.recorded.setdefault(name, text)
