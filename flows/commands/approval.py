"""Approvals of commands by a person.

A person sees the exact command before it is carried out. The person approves it, refuses it, or
changes its arguments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Protocol

from perdure.flows.commands.in_doubt import is_before_retry, is_decision, retry_mark
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import BadReply, InvalidFlow, InvalidInput
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.core.round_journal import SCOPE
from perdure.flows.core.validation import is_seconds
from perdure.flows.rounds.context import RoundContext

Rule = Callable[[Mapping[str, Any]], Any]
EXPECTED = '"approve", "refuse", {"refuse": "why"} or {"edit": {the arguments}}'


@dataclass(frozen=True, slots=True)
class Approval:
    """When a command needs approval, and the answer at the deadline.

    Attributes:
        when: a function of the arguments that returns whether this call needs approval. It gets the
            arguments of a command as JSON data, with defaults filled in. None: every call needs it.
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
    """A person's approval.

    Attributes:
        args: the edited arguments. None if the person has not edited them.
        by: the person's name, or None if it is not known.
    """

    args: Mapping[str, Any] | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRefused:
    """A person's refusal, with an explanation in ``words``. Empty: the person gave none."""

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
    """Return the SHA-256 of a command with its arguments. An approval counts for this digest."""
    return hashlib.sha256(canonical({"command": name, "args": dict(args)}).encode()).hexdigest()


def read_answer(answer: Any) -> Approved | ApprovalRefused:
    """Parse a person's answer to the question of an approval.

    Returns:
        ``Approved``, with the arguments if the person edited them, or ``ApprovalRefused``.

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


class ApprovableCall(Protocol):
    """A command with arguments that may need a person's approval."""

    @property
    def name(self) -> str:
        """The name of the command."""

    @property
    def named(self) -> Mapping[str, Any]:
        """All arguments by name, with defaults filled in. ``Approval.when`` gets them."""

    def question(self) -> dict[str, Any]:
        """Return the data of the question: ``command``, ``args`` and ``digest`` of the call.

        Raises:
            FatalError: a person could not see the whole call.
        """

    def is_asked_in(self, question: Mapping[str, Any]) -> bool:
        """Return whether a question about this command was about this very call.

        Args:
            question: the data that ``question`` returned for a call of the command.
        """

    def digest(self) -> str:
        """Return the digest of this call. An approval counts for this digest."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A call of a command that a controller chose.

    Attributes:
        name: the name of the command.
        args: the arguments as the controller gave them.
        named: the arguments as the command gets them, as JSON data with defaults filled in.
    """

    name: str
    args: Mapping[str, Any]
    named: Mapping[str, Any]

    def question(self) -> dict[str, Any]:
        """Return the data of the question about the call."""
        return {"command": self.name, "args": dict(self.named), "digest": self.digest()}

    def is_asked_in(self, question: Mapping[str, Any]) -> bool:
        """Return whether a question was about this very call.

        Earlier releases asked about the arguments as the controller gave them.
        """
        return question.get("digest") in (self.digest(), digest_of(self.name, self.args))

    def digest(self) -> str:
        """Return the digest of the name and of all arguments."""
        return digest_of(self.name, self.named)


class Approvable(Protocol):
    """A command for which a person's approval may be needed."""

    @property
    def name(self) -> str: ...
    @property
    def approval(self) -> Approval | None: ...
    def check(self, args: Mapping[str, Any]) -> Any: ...
    def call(self, args: Mapping[str, Any]) -> ApprovableCall: ...


def decision_about(
    spec: Approvable,
    args: Mapping[str, Any],
    context: RoundContext,
    begun: Approved | None = None,
) -> Approved | ApprovalRefused | Interrupt | None:
    """Return a person's decision about a command.

    Without a decision, return the ``Interrupt`` that asks for one. If a person has answered a
    question about this call, the answer decides, whatever the rule says now. An approval counts for
    the whole step: it is recorded, so that it outlives the answer to another question. It does not
    count after a retry of the run by a person.

    Args:
        args: the arguments as the controller gave them.
        begun: the approval that an intent of an earlier attempt implies. None: no earlier attempt
            has begun the command.

    Returns:
        The decision or the ``Interrupt``. But if no approval is needed and no question about this
            command was answered, ``begun``, which may be None.
    """
    if (recorded := recorded_approval(spec, args, context)) is not None:
        return recorded
    if begun is not None and not context.retried:
        return begun
    question, fault = _answered(spec.name, context), ""
    if question is None and spec.approval is None:
        return begun
    call = spec.call(args)
    if question is not None and not call.is_asked_in(question):
        fault = " (the last answer was about other arguments, so it does not count)"
    elif question is not None:
        try:
            answer = read_answer(context.answer)
            if not isinstance(answer, Approved):
                return answer
            if answer.args is not None:
                spec.check(answer.args)
            approved = replace(answer, by=context.answered_by)
            told = {"args": approved.args, "by": approved.by}
            context.journal.record(_record_of(call, context), canonical(told))
            return approved
        except (InvalidInput, BadReply) as error:
            fault = f" (the last answer was not valid: {error})"
    elif spec.approval is not None and not spec.approval.is_needed(call.named):
        return begun
    rule = spec.approval or Approval()
    return Interrupt(
        f"approve the command {call.name}?{fault}",
        {"approval": call.question(), **retry_mark(context)},
        rule.deadline,
        rule.default,
    )


def _answered(name: str, context: RoundContext) -> Mapping[str, Any] | None:
    """Return the data of the question that a person has just answered, without the answer.

    Only a question about an approval of this command counts.

    Args:
        name: the name of the command.

    Returns:
        ``command``, ``args`` and ``digest`` of the call that the question was about. None if no
            such question was answered. None also if the question is from before the last retry of
            the run: the answer to it led to the run's error, so it does not count any more.
    """
    asked = context.asked
    if not (context.answered and is_decision(asked)) or is_before_retry(asked, context):
        return None
    question = asked.get("approval")
    is_about_it = isinstance(question, Mapping) and (question.get("command", name) == name)
    return question if is_about_it else None


#: Begins the name of the record of an approval. Its scope is its own, so that it leaves the other
#: records of the step their room (``MOST_RESULTS``).
RECORD = f"{SCOPE}approved "


def recorded_approval(
    spec: Approvable, args: Mapping[str, Any], context: RoundContext
) -> Approved | None:
    """Return the approval of a call that was recorded in this step.

    Returns:
        None if the step has no record of it. An approval from before the last retry of the run by a
            person does not count.
    """
    # Few steps have such a record, and to make the digest of a call takes long.
    own, recorded = f"{RECORD}{spec.name} ", list(context.journal.recorded)
    if not recorded or not any(name.startswith(own) for name in recorded):
        return None
    text = context.journal.recorded.get(_record_of(spec.call(args), context))
    return None if text is None else Approved(**json.loads(text))


def _record_of(call: ApprovableCall, context: RoundContext) -> str:
    """Return the name under which the approval of a call is recorded."""
    return f"{RECORD}{call.name} {call.digest()}{context.retried}"
