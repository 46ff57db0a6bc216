"""Tools of the OpenAI Agents SDK. A tool that is an agent runs in the workflow, others in steps."""

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
    """The maker of copies of agents. A copy calls its models and tools in steps."""

    def agent(self, agent: Agent[Any]) -> Agent[Any]: ...
    def config(self, given: RunConfig | None) -> RunConfig: ...


#: Makes the copies for the agents that are run by the tool that is being called.
OUTER: ContextVar[AgentCopies | None] = ContextVar("outer", default=None)


def around(inner: Any, outer: _T) -> _T:
    """Mark ``outer`` as a wrapper of ``inner``, for ``inner_of``. Return ``outer``."""
    setattr(outer, _INNER, inner)
    return outer


def inner_of(each: Any) -> Any:
    """Return the original of a wrapped object.

    It is a model, tool, handoff or server. An object that wraps nothing is returned itself.
    """
    return getattr(each, _INNER, each)


def run_in_workflow(copies: AgentCopies, tool: FunctionTool) -> Callable[..., Any]:
    """Return the function for a tool that is an agent.

    The SDK calls it. The model requests and tool calls of that agent are steps of the workflow.
    """

    async def invoke(context: Any, text: str) -> Any:
        before = OUTER.set(copies)
        try:
            return await tool.on_invoke_tool(context, text)
        finally:
            OUTER.reset(before)

    return around(tool, invoke)


class _Passing(BaseException):
    """Raised to pass an error of Perdure through the SDK.

    The SDK reports every ``Exception`` of a tool to the model. This is a ``BaseException``.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def call_tool(tool: FunctionTool, context: Any, text: str) -> Any:
    """Call a tool's function, and raise errors in ``HEARD``.

    The SDK itself converts each exception of a tool to a text for the model. But a FatalError has
    to end the run, and a RetryableError has to repeat the step. A tool that was made without
    ``function_tool`` handles its own errors.
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
    """The default runner of the SDK, extended for agents that are tools.

    If a workflow runs the calling agent, an agent that is a tool runs in the same workflow. All
    other agents run as usual. The function of ``Agent.as_tool`` calls ``Runner.run``, which uses
    the default runner. In the SDK, the replacement of this runner is experimental.
    """

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run an agent.

        If the agent is a tool of an agent in a workflow, its requests and tool calls are steps.
        """
        outer = OUTER.get()
        if outer is not None and current_steps() is not None:
            starting_agent = outer.agent(starting_agent)
            options["run_config"] = outer.config(options.get("run_config"))
        return await self._runner.run(starting_agent, input, **options)

    def run_sync(self, *args: Any, **options: Any) -> RunResult:
        """Run an agent as the SDK does, and block until it has ended."""
        return self._runner.run_sync(*args, **options)

    def run_streamed(self, *args: Any, **options: Any) -> RunResultStreaming:
        """Run an agent as the SDK does, and return its stream."""
        return self._runner.run_streamed(*args, **options)


set_default_agent_runner(NestedRunner(get_default_agent_runner()))
