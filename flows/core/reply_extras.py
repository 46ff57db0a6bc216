"""Extras: the fields of a controller's reply other than its command.

Extras with a name that begins with ``_`` are for the controller only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from perdure.flows.core.outcomes import Advance, Command, End, Turn

#: The model's reply in the form in which its provider wants it back: JSON text, or ``{"artifact":
#: name, "bytes": size}`` for a long one.
REPLY = "_reply"
#: False if the thought was never part of the model's text. It is then not sent back as such.
SPOKEN = "_spoken"
#: A person's feedback on the command's result. The model reads it after the observation.
FEEDBACK = "_feedback"
#: Maximum bytes of a reply that is stored with its turn. A longer one becomes an artifact, so that
#: no claim has to transfer it.
MOST_WITH_TURN = 32 * 1024

Outcome = TypeVar("Outcome", bound=Advance | End)


def public(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras whose names do not begin with ``_``.

    People, prompts and commands may see them.
    """
    return {name: value for name, value in extras.items() if not name.startswith("_")}


def bytes_of_reply(extras: Mapping[str, Any]) -> int:
    """Return the size in bytes of the stored reply (``REPLY``). 0 if the extras have no reply.

    The reply is counted in the form in which it is sent back to the model.
    """
    reply = extras.get(REPLY)
    if isinstance(reply, Mapping):
        return int(reply.get("bytes", 0))
    return len(str(reply).encode("utf-8", "replace")) if reply else 0


def with_long_replies_apart(outcome: Outcome, step: int) -> Outcome:
    """Move a long reply from a round's outcome to an artifact named ``reply-STEP``.

    A reply is long if it has more than ``MOST_WITH_TURN`` bytes. An outcome without a long reply is
    returned unchanged. Only the outcome of a Controller's round can have a reply.
    """
    if not outcome.turns and REPLY not in (outcome.values.get("_said") or ()):
        return outcome
    artifacts: dict[str, str] = {}

    def apart(extras: Mapping[str, Any]) -> Mapping[str, Any]:
        if (
            REPLY not in extras
            or isinstance(extras[REPLY], Mapping)
            or (size := bytes_of_reply(extras)) <= MOST_WITH_TURN
        ):
            return extras
        name = f"reply-{step}"
        artifacts[name] = extras[REPLY]
        return {**extras, REPLY: {"artifact": name, "bytes": size}}

    def turn_apart(turn: Turn) -> Turn:
        command = turn.command
        return (
            turn
            if command is None
            else replace(turn, command=_with(command, apart(command.extras)))
        )

    turns = tuple(map(turn_apart, outcome.turns))
    value_extras = apart(outcome.values.get("_said") or {})
    if not artifacts:
        return outcome
    values = (
        {**outcome.values, "_said": value_extras} if "_said" in outcome.values else outcome.values
    )
    return replace(
        outcome, turns=turns, values=values, artifacts={**outcome.artifacts, **artifacts}
    )


def _with(command: Command, extras: Mapping[str, Any]) -> Command:
    return command if extras is command.extras else replace(command, extras=extras)
