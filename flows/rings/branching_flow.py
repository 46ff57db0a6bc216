"""BranchingFlow, a flow that carries out the command that its input names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.flows.commands.command import CommandSpec, commands_of, lacks_of, parts_of
from perdure.flows.core.errors import (
    BadReply,
    FatalError,
    InvalidInput,
    RetryableError,
    RoundStopped,
    described,
    ends_process,
)
from perdure.flows.core.names import Role, suggest
from perdure.flows.core.outcomes import End, Finish, Interrupt, Outcome
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.children import ChildFailed, InvalidChild, WaitOver
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.waits import Parked

#: Errors about child runs. They end the round of a node, and a controller can act on them.
CHILD_ERRORS = (ChildFailed, InvalidChild, WaitOver)
#: Maximum characters of a command's exception in an observation.
TOLD_CHARACTERS = 2000


class BranchingFlow(Flow):
    """A flow that carries out the command that its input names.

    The input ``branch`` is the name of the command, and ``branch_input_data`` has its arguments.
    The name must match exactly. The output is ``branch_output_data``. The commands are the flow's
    methods marked ``@command`` and the ``commands`` passed to it. In a ring, the flow is the
    function of a node. By itself, it is a flow whose runs have one round.

    Args:
        commands: functions, bound methods or ``CommandSpec`` objects.
        tell_errors: whether an exception of a command becomes the output
            ``{"error": "ValueError: its message"}``, so that the model that chose the command reads
            it. RetryableError, RoundStopped and FatalError never do, except the FatalErrors about
            child runs. A command's own ``@command(errors=...)`` takes precedence.
    """

    def __init__(
        self,
        commands: Sequence[Any] = (),
        *,
        tell_errors: bool = False,
        name: str = "",
        description: str = "",
    ) -> None:
        self.name = name or self.name
        self.description = description or self.description
        self.tell_errors = tell_errors
        self.offered = tuple(commands)
        self.check_definition()

    def check_definition(self) -> None:
        """Raise InvalidFlow if a command or setting is not valid."""
        commands_of(self, self.offered)
        super().check_definition()

    @property
    def branches(self) -> Mapping[str, CommandSpec]:
        """The commands of a branching flow, by name."""
        return commands_of(self, self.offered)

    @property
    def missing(self) -> str | None:
        """A sentence about the first missing dependency of the commands. None if there is none."""
        return lacks_of(parts_of(self.branches.values()))

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The only node, ``Branch``, with its role."""
        return {"Branch": "executor"}

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Validate a run's inputs: the command must be known and must accept its arguments.

        Raises:
            InvalidInput: an input is missing, unknown or wrong.
        """
        checked = super().check_inputs(inputs)
        try:
            _chosen(self.branches, checked)
        except BadReply as error:
            raise InvalidInput(str(error)) from error
        return checked

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Carry out the inputs' command, and end the run with its result.

        If the command returns an ``Interrupt``, the run is interrupted instead.

        Raises:
            FatalError: the command is unknown or its arguments are wrong. Nothing was carried out.
        """
        try:
            result = self({**context.inputs}, context)
        except BadReply as error:
            raise FatalError(str(error)) from error
        if isinstance(result, Interrupt):
            return result
        if isinstance(result, Finish):
            result = {"branch_output_data": result.answer}
        return End(result["branch_output_data"], dict(result), values=dict(context.remembered))

    def __call__(
        self, state: Mapping[str, Any], context: RoundContext
    ) -> Mapping[str, Any] | Interrupt | Finish:
        """Carry out the command that the state names as ``branch``.

        The command's arguments are ``branch_input_data`` (None: no arguments).

        Returns:
            ``{"branch_output_data": result}``, or the ``Interrupt`` or ``Finish`` that the command
            returned.

        Raises:
            BadReply: the branch is unknown or its arguments are wrong. Nothing was carried out.
        """
        return carry_out_chosen(self.branches, state, context, self.tell_errors)


def carry_out_chosen(
    branches: Mapping[str, CommandSpec],
    state: Mapping[str, Any],
    context: RoundContext,
    tell_errors: bool,
) -> Mapping[str, Any] | Interrupt | Finish:
    """Carry out the command that a state names, as ``BranchingFlow`` does.

    Args:
        branches: the commands, by name.
        state: the command's name as ``branch``, and its arguments as ``branch_input_data``.
        tell_errors: as for ``BranchingFlow``. If it is False, a command in doubt without a policy
            of its own asks a person.

    Returns:
        ``{"branch_output_data": result}``, or the ``Interrupt`` or ``Finish`` that the command
        returned. If an exception of the command is an observation (``tell_errors``), the result is
        this observation.

    Raises:
        BadReply: the branch is unknown or its arguments are wrong. Nothing was carried out.
        RoundStopped: the round was cancelled inside the command.
        Exception: an exception of the command that is not an observation.
    """
    spec, args = _chosen(branches, state)
    try:
        # Code cannot judge a doubt as a model can. A person is asked, unless the command has
        # its own policy.
        settles = tell_errors or spec.idempotent or spec.in_doubt is not None
        result = (spec if settles else replace(spec, in_doubt="ask")).carry_out(args, context)
    except (RetryableError, RoundStopped, Parked):
        raise
    except BaseException as error:
        tells = spec.is_observed(tell_errors)
        is_final = isinstance(error, FatalError) and not isinstance(error, CHILD_ERRORS)
        if ends_process(error) or is_final:
            raise
        if context.cancelled.is_set():
            raise RoundStopped(
                f"run {context.run_id}, step {context.step}: cancelled inside command {spec.name!r}"
            ) from error
        # SystemExit is an error of the command (argparse, sys.exit). asyncio.CancelledError is
        # not passed on: a controller cannot use it.
        if not tells or not isinstance(error, Exception | SystemExit):
            if not isinstance(error, FatalError):
                spec.check_repeatable(error, args, context)
            raise
        result = told(error)
    return result if isinstance(result, Interrupt | Finish) else {"branch_output_data": result}


def _chosen(
    branches: Mapping[str, CommandSpec], state: Mapping[str, Any]
) -> tuple[CommandSpec, Mapping[str, Any]]:
    name, args = state.get("branch"), state.get("branch_input_data")
    return choose(branches, name, {} if args is None else args)


def choose(
    branches: Mapping[str, CommandSpec], name: Any, args: Any, also: Sequence[str] = ()
) -> tuple[CommandSpec, Mapping[str, Any]]:
    """Return the command named ``name`` and its arguments, after validation.

    Args:
        branches: the commands, by name.
        also: other known names, which the error text may suggest.

    Raises:
        BadReply: the command is unknown, or the arguments are wrong.
    """
    if not isinstance(name, str) or name not in branches:
        raise BadReply(f"no command is named {name!r}; {suggest(name, [*branches, *also])}")
    if not isinstance(args, Mapping):
        raise BadReply(
            f"the arguments of command {name!r} are {args!r}; "
            "expected an object of names and values"
        )
    branches[name].check(args)
    return branches[name], args


def told(error: BaseException) -> dict[str, str]:
    """Return a command's exception as an observation: ``{"error": "ValueError: its message"}``.

    If a child run failed, the observation also has the child's id as ``run``.
    """
    if isinstance(error, ChildFailed) and error.ended is not None:
        what = safe_text(f"ChildFailed: {error.observed}", TOLD_CHARACTERS)
        return {"error": what, "run": error.ended.run_id}
    return {"error": safe_text(described(error), TOLD_CHARACTERS)}
