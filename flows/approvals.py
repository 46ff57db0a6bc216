"""Approvals: a person sees the exact command before it is carried out, and approves it, refuses it, or changes its arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from flows.context import RoundContext
from flows.definition import is_seconds
from flows.durations import as_seconds
from flows.errors import BadReply, InvalidFlow, InvalidInput
from flows.outcomes import Command, Interrupt
from flows.values import canonical

Rule = Callable[[Mapping[str, Any]], Any]
EXPECTED = '"approve", "refuse", {"refuse": "why"} or {"edit": {the arguments}}'


@dataclass(frozen=True, slots=True)
class Approval:
    """When a command needs a person's word, and what becomes of it if nobody answers.

    Attributes:
        when: a function of the arguments that says whether this call needs it; None: each does.
        deadline: seconds (or a timedelta, or a text like ``7d``) after which ``default`` answers; None waits for ever.
        default: the answer at the deadline, as a person would give it.
    """

    when: Rule | None = None
    deadline: float | timedelta | str | None = None
    default: Any = "refuse"

    def is_needed(self, args: Mapping[str, Any]) -> bool:
        """Whether the call with these arguments needs it."""
        return self.when is None or bool(self.when(args))


@dataclass(frozen=True, slots=True)
class Approved:
    """A person said yes; ``args`` are theirs where they changed them, else None."""

    args: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A person said no, in these words."""

    words: str = ""


def approval_of(given: Any) -> Approval | None:
    """What ``@command(approval=...)`` stands for; raises InvalidFlow."""
    if given is None or given == "never":
        return None
    if given == "always":
        return Approval()
    approval = Approval(given) if callable(given) else given
    if not isinstance(approval, Approval):
        raise InvalidFlow(f"@command: approval is {given!r}; expected 'never', 'always', a function of the arguments, or an Approval")
    try:
        seconds = as_seconds(approval.deadline)
    except ValueError as error:
        raise InvalidFlow(f"@command: the approval's deadline: {error}") from error
    if seconds is not None and not is_seconds(seconds):
        raise InvalidFlow(f"@command: the approval's deadline is {approval.deadline!r}; expected seconds above 0, or None")
    try:
        read_answer(approval.default)
    except InvalidInput as error:
        raise InvalidFlow(f"@command: the approval's default: {error}") from error
    return approval


def matching(patterns: Mapping[str, list[str]], otherwise: bool = False) -> Rule:
    """A rule by patterns as shells have them (``*``, ``?``, ``[...]``), for flows written in YAML.

    It holds where an argument that is named matches one of its patterns; with ``otherwise``, unless each of those named does.
    Values that are no text are matched as JSON.
    """

    def fits(args: Mapping[str, Any], name: str) -> bool:
        value = args.get(name)
        text = value if isinstance(value, str) else canonical(value)
        return name in args and any(fnmatchcase(text, pattern) for pattern in patterns[name])

    if otherwise:
        return lambda args: not all(fits(args, name) for name in patterns)
    return lambda args: any(fits(args, name) for name in patterns)


def digest_of(name: str, args: Mapping[str, Any]) -> str:
    """What an approval is bound to: SHA-256 over the command's name and its arguments."""
    return hashlib.sha256(canonical({"command": name, "args": dict(args)}).encode()).hexdigest()


def read_answer(answer: Any) -> Approved | Refused:
    """A person's answer; raises InvalidInput where it is none."""
    match answer:
        case True | "approve" | "yes" | {"approve": True}:
            return Approved()
        case False | "refuse" | "no" | {"refuse": True}:
            return Refused()
        case {"refuse": str(words)} if len(answer) == 1:
            return Refused(words)
        case {"edit": dict(args)} if len(answer) == 1:
            return Approved(args)
    raise InvalidInput(f"the answer to an approval is {str(answer)[:200]!r}; expected {EXPECTED}")


def approved(approval: Approval, command: Command, check: Callable[[Mapping[str, Any]], Any], context: RoundContext) -> Any:
    """What a person said to exactly this command: ``Approved`` or ``Refused``; an ``Interrupt`` that asks, where nobody has yet."""
    digest = digest_of(command.name, command.args)
    asked = context.asked.get("approval") if isinstance(context.asked, Mapping) else None
    fault = ""
    if context.answered and isinstance(asked, Mapping) and asked.get("digest") == digest:
        try:
            said = read_answer(context.answer)
            if isinstance(said, Approved) and said.args is not None:
                check(said.args)
            return said
        except (InvalidInput, BadReply) as error:
            fault = f" (the last answer could not be taken: {error})"
    data = {"approval": {"command": command.name, "args": dict(command.args), "digest": digest}}
    return Interrupt(f"approve the command {command.name}?{fault}", data, approval.deadline, approval.default)
