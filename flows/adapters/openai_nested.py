"""Tools of the OpenAI Agents SDK: agents that are tools run in the workflow, others in a step."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, Protocol, TypeVar

from agents import Agent, FunctionTool, RunConfig, RunResult, RunResultStreaming
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.tool import invoke_function_tool

from perdure.flows.core.errors import FatalError, RetryableError, RoundStopped
from perdure.flows.workflows.steps import current_steps

_T = TypeVar("_T")
#: Name of the attribute by which a wrapped model, tool, handoff or server holds its original.
_INNER = "perdure_inner"


#: The errors of a tool that are meant for the run, and not for the model.
HEARD = (FatalError, RetryableError, RoundStopped)


class AgentCopies(Protocol):
    """The copies of agents whose models and tools are called in steps."""

    def agent(self, agent: Agent[Any]) -> Agent[Any]: ...
    def config(self, given: RunConfig | None) -> RunConfig: ...


#: Makes the copies for the agents that are run by the tool that is being called.
OUTER: ContextVar[AgentCopies | None] = ContextVar("outer", default=None)


def around(inner: Any, outer: _T) -> _T:
    """Note in ``outer`` that it wraps ``inner``, for ``inner_of``. Return ``outer``."""
    setattr(outer, _INNER, inner)
    return outer


def inner_of(each: Any) -> Any:
    """Return the original of a wrapped model, tool, handoff or server, or the object itself."""
    return getattr(each, _INNER, each)


def run_in_workflow(copies: AgentCopies, tool: FunctionTool) -> Callable[..., Any]:
    """Return a function that calls an agent as a tool. The agent's requests and tools are steps."""

    async def invoke(context: Any, text: str) -> Any:
        before = OUTER.set(copies)
        try:
            return await tool.on_invoke_tool(context, text)
        finally:
            OUTER.reset(before)

    return around(tool, invoke)


class _Passing(BaseException):
    """Raised to pass an error of Perdure through the SDK, which reports Exceptions to the model."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def call_tool(tool: FunctionTool, context: Any, text: str) -> Any:
    """Call a tool's function as the SDK does.

    Errors that are meant for Perdure are raised. The SDK converts each exception to a text for the
    model. A FatalError ends the run, and a RetryableError repeats the step, also if a tool raises
    them.
    """
    invoker: Any = tool.on_invoke_tool
    function = getattr(invoker, "_invoke_tool_impl", None)
    if function is not None:  # otherwise the tool was made by hand and handles its own errors

        @wraps(function)
        async def passing(*args: Any) -> Any:
            try:
                return await function(*args)
            except HEARD as error:
                raise _Passing(error) from error

        invoker = copy(invoker)
        invoker._invoke_tool_impl = passing
        tool = replace(tool, on_invoke_tool=invoker)
    try:
        return await invoke_function_tool(function_tool=tool, context=context, arguments=text)
    except _Passing as passed:
        raise passed.error from passed.error.__cause__


class NestedRunner(AgentRunner):
    """A runner that runs an agent used as a tool in the workflow of its caller.

    All other agents run as usual. ``Agent.as_tool`` holds its agent and calls ``Runner.run``, which
    asks the default runner. The SDK calls this hook experimental.
    """

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run an agent. If a tool runs it, its requests and tools are steps of the workflow."""
        outer = OUTER.get()
        if outer is not None and current_steps() is not None:
            starting_agent = outer.agent(starting_agent)
            options["run_config"] = outer.config(options.get("run_config"))
        return await self._runner.run(starting_agent, input, **options)

    def run_sync(self, *args: Any, **options: Any) -> RunResult:
        """Run an agent, and block."""
        return self._runner.run_sync(*args, **options)

    def run_streamed(self, *args: Any, **options: Any) -> RunResultStreaming:
        """Run an agent whose result is a stream."""
        return self._runner.run_streamed(*args, **options)


set_default_agent_runner(NestedRunner(get_default_agent_runner()))
