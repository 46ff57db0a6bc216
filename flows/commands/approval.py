"""Approvals of commands by a person.

A person sees the exact command before it is carried out. The person approves it, refuses it, or
changes its arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import BadReply, InvalidFlow, InvalidInput
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command, Interrupt
from perdure.flows.core.validation import is_seconds
from perdure.flows.rounds.context import RoundContext

Rule = Callable[[Mapping[str, Any]], Any]
EXPECTED = '"approve", "refuse", {"refuse": "why"} or {"edit": {the arguments}}'


@dataclass(frozen=True, slots=True)
class Approval:
    """When a command needs approval, and the answer at the deadline.

    Attributes:
        when: a function of the arguments that returns whether this call needs approval. None: every
            call does.
        deadline: seconds (or a timedelta, or a text like ``7d``) after which ``default`` is taken.
            None waits for ever.
        default: the answer at the deadline, in the form in which a person would give it.
    """

    when: Rule | None = None
    deadline: float | timedelta | str | None = None
    default: Any = "refuse"

    def is_needed(self, args: Mapping[str, Any]) -> bool:
        """Return whether a call with these arguments needs approval."""
        return self.when is None or bool(self.when(args))


@dataclass(frozen=True, slots=True)
class Approved:
    """A person's approval. ``args``: the edited arguments, or None if not edited."""

    args: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRefused:
    """A person's refusal, with an explanation in ``words``."""

    words: str = ""


def approval_of(option: Any) -> Approval | None:
    """Convert the option ``@command(approval=...)`` to an approval rule.

    Returns:
        None for ``"never"`` and for an option that is not set.

    Raises:
        InvalidFlow: the option is not valid.
    """
    if option is None or option == "never":
        return None
    if option == "always":
        return Approval()
    approval = Approval(option) if callable(option) else option
    if not isinstance(approval, Approval):
        raise InvalidFlow(
            f"@command: approval is {option!r}; expected 'never', 'always', "
            "a function of the arguments, or an Approval"
        )
    try:
        seconds = as_seconds(approval.deadline)
    except ValueError as error:
        raise InvalidFlow(f"@command: the approval's deadline: {error}") from error
    if seconds is not None and not is_seconds(seconds):
        raise InvalidFlow(
            f"@command: the approval's deadline is {approval.deadline!r}; "
            "expected seconds above 0, or None"
        )
    try:
        read_answer(approval.default)
    except InvalidInput as error:
        raise InvalidFlow(f"@command: the approval's default: {error}") from error
    return approval


def matching(patterns: Mapping[str, list[str]], otherwise: bool = False) -> Rule:
    """Return a rule that decides by shell patterns whether a call needs approval.

    Flows written in YAML use it. A value that is not text is matched as JSON.

    Args:
        patterns: shell patterns (``*``, ``?``, ``[...]``) by argument. A call needs approval if any
            of these arguments matches one of its patterns.
        otherwise: True: a call needs approval unless each of these arguments matches a pattern.
    """

    def fits(args: Mapping[str, Any], name: str) -> bool:
        value = args.get(name)
        text = value if isinstance(value, str) else canonical(value)
        return name in args and any(fnmatchcase(text, pattern) for pattern in patterns[name])

    if otherwise:
        return lambda args: not all(fits(args, name) for name in patterns)
    return lambda args: any(fits(args, name) for name in patterns)


def digest_of(name: str, args: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a command and its arguments, for which an approval counts."""
    return hashlib.sha256(canonical({"command": name, "args": dict(args)}).encode()).hexdigest()


def read_answer(answer: Any) -> Approved | ApprovalRefused:
    """Parse a person's answer to the question of an approval.

    Raises:
        InvalidInput: ``answer`` does not answer an approval.
    """
    # Of two decisions in one answer, neither counts.
    is_one = not isinstance(answer, Mapping) or len(answer) == 1
    match answer:
        case True | "approve" | "yes" | {"approve": True} if is_one:
            return Approved()
        case False | "refuse" | "no" | {"refuse": True} if is_one:
            return ApprovalRefused()
        case {"refuse": str(words)} if is_one:
            return ApprovalRefused(words)
        case {"edit": dict(args)} if is_one:
            return Approved(args)
    raise InvalidInput(f"the answer to an approval is {str(answer)[:200]!r}; expected {EXPECTED}")


def decision_about(
    approval: Approval | None,
    command: Command,
    check: Callable[[Mapping[str, Any]], Any],
    context: RoundContext,
) -> Approved | ApprovalRefused | Interrupt | None:
    """Return a person's decision about a command.

    Without a decision, return the ``Interrupt`` that asks for it. If a person has answered a
    question about this command, the answer decides, whatever the rule says now. The answer counts
    only for the same arguments. For other arguments, the person is asked again.

    Args:
        approval: the current rule of the code. None: the command needs no approval.
        check: raises BadReply if the command does not accept the arguments that a person edited.

    Returns:
        None if the rule needs no approval and no question about this command was answered.
    """
    if approval is None and not context.answered:
        return None
    digest = digest_of(command.name, command.args)
    question = context.asked.get("approval") if isinstance(context.asked, Mapping) else None
    is_about_it = isinstance(question, Mapping) and (
        question.get("digest") == digest or question.get("command") == command.name
    )
    if not (context.answered and is_about_it):
        question = None
    if question is None and not (approval is not None and approval.is_needed(command.args)):
        return None
    fault = ""
    if question is not None and question.get("digest") != digest:
        fault = " (the last answer was about other arguments, so it does not count)"
    elif question is not None:
        try:
            answer = read_answer(context.answer)
            if isinstance(answer, Approved) and answer.args is not None:
                check(answer.args)
            return answer
        except (InvalidInput, BadReply) as error:
            fault = f" (the last answer was not valid: {error})"
    data = {"approval": {"command": command.name, "args": dict(command.args), "digest": digest}}
    rule = approval or Approval()
    return Interrupt(
        f"approve the command {command.name}?{fault}", data, rule.deadline, rule.default
    )
