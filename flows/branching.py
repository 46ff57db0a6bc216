"""BranchingFlow: carries out the one command that its input names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flows.base import Flow, Role
from flows.commands import CommandSpec, commands_of
from flows.context import RoundContext
from flows.definition import known
from flows.errors import BadReply, FatalError, InvalidInput, RetryableError, RoundStopped
from flows.outcomes import End, Finish, Interrupt, Outcome
from flows.process_end import ends_process
from flows.summaries import safe_text

#: Of a command's exception, this much is told.
TOLD_CHARACTERS = 2000


class BranchingFlow(Flow):
    """Input ``branch`` and ``branch_input_data``, output ``branch_output_data``; names match exactly.

    The branches are its methods marked ``@command`` and the ``commands`` given. In a ring it plays a node; by
    itself it is a run of one round.

    Args:
        commands: functions, bound methods or ``CommandSpec`` objects.
        tell_errors: an exception of a command becomes the output ``{"error": "ValueError: its message"}``, so that
            the model that chose the command reads it. RetryableError, FatalError and RoundStopped never do.
            A command's own ``@command(errors=...)`` wins.
    """

    def __init__(self, commands: Sequence[Any] = (), *, tell_errors: bool = False, name: str = "", description: str = "") -> None:
        self.name = name or self.name
        self.description = description or self.description
        self.tell_errors = tell_errors
        self.offered = tuple(commands)
        self.check_definition()

    def check_definition(self) -> None:
        """Also: each branch can be a command, and names differ."""
        commands_of(self, self.offered)
        super().check_definition()

    @property
    def branches(self) -> Mapping[str, CommandSpec]:
        """The commands by name."""
        return commands_of(self, self.offered)

    @property
    def nodes(self) -> Mapping[str, Role]:
        """One node."""
        return {"Branch": "executor"}

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Also: the branch exists and accepts its data."""
        checked = super().check_inputs(inputs)
        try:
            self._choose(checked)
        except BadReply as error:
            raise InvalidInput(str(error)) from error
        return checked

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Carry out the branch that the inputs name, and end."""
        try:
            result = self({**context.inputs}, context)
        except BadReply as error:
            raise FatalError(str(error)) from error
        if isinstance(result, Interrupt):
            return result
        if isinstance(result, Finish):
            result = {"branch_output_data": result.answer}
        return End(result["branch_output_data"], dict(result), values=dict(context.remembered))

    def __call__(self, given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any] | Interrupt | Finish:
        """Carry out ``given["branch"]`` with ``given["branch_input_data"]`` (None: no arguments).

        Raises:
            BadReply: no such branch, or wrong arguments; nothing was carried out.
        """
        spec, args = self._choose(given)
        try:
            # Code cannot weigh a doubt as a model can, so a person is asked, unless the command has a policy of its own.
            settles = self.tell_errors or spec.idempotent or spec.in_doubt is not None
            result = (spec if settles else replace(spec, in_doubt="ask")).carry_out(args, context)
        except (RetryableError, FatalError, RoundStopped):
            raise
        except BaseException as error:
            if ends_process(error):
                raise
            if context.cancelled.is_set():
                raise RoundStopped(f"run {context.run_id}, step {context.step}: cancelled inside command {spec.name!r}") from error
            # SystemExit comes from a command (argparse, sys.exit). No controller can make use of an asyncio.CancelledError.
            is_told = isinstance(error, Exception | SystemExit) and (self.tell_errors if spec.errors is None else spec.errors == "observe")
            if not is_told:
                spec.check_repeatable(error, args, context)
                raise
            result = told(error)
        return result if isinstance(result, Interrupt | Finish) else {"branch_output_data": result}

    def _choose(self, given: Mapping[str, Any]) -> tuple[CommandSpec, Mapping[str, Any]]:
        name, args = given.get("branch"), given.get("branch_input_data")
        return choose(self.branches, name, {} if args is None else args)


def choose(branches: Mapping[str, CommandSpec], name: Any, args: Any, also: Sequence[str] = ()) -> tuple[CommandSpec, Mapping[str, Any]]:
    """The command of this name, and its arguments once it has accepted them; ``also`` are names known beside ``branches``.

    Raises:
        BadReply: no such command, or wrong arguments.
    """
    if not isinstance(name, str) or name not in branches:
        raise BadReply(f"no command is named {name!r}; {known(name, [*branches, *also])}")
    if not isinstance(args, Mapping):
        raise BadReply(f"the arguments of command {name!r} are {args!r}; expected an object of names and values")
    branches[name].check(args)
    return branches[name], args


def told(error: BaseException) -> dict[str, str]:
    """How an error reads as an observation: ``{"error": "ValueError: its message"}``."""
    return {"error": safe_text(f"{type(error).__name__}: {error}", TOLD_CHARACTERS)}
