"""Agents of the OpenAI Agents SDK that are tools of others: the workflow runs them, not a step."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from agents import Agent, FunctionTool, RunConfig, RunResult, RunResultStreaming
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from perdure.flows.workflows.steps import current_steps

_T = TypeVar("_T")
#: Name of the attribute by which a step holds what it calls.
_INNER = "perdure_inner"


class AgentCopies(Protocol):
    """Makes copies of agents whose models and tools are called in steps."""

    def agent(self, agent: Agent[Any]) -> Agent[Any]: ...
    def config(self, given: RunConfig | None) -> RunConfig: ...


#: Makes the copies for the agents that are run by the tool that is being called.
OUTER: ContextVar[AgentCopies | None] = ContextVar("outer", default=None)


def around(inner: Any, outer: _T) -> _T:
    """Return ``outer``, of which ``inner_of`` returns ``inner``."""
    setattr(outer, _INNER, inner)
    return outer


def inner_of(each: Any) -> Any:
    """Return what a model, a tool, a handoff or a server calls in steps, or itself."""
    return getattr(each, _INNER, each)


def run_in_workflow(copies: AgentCopies, tool: FunctionTool) -> Callable[..., Any]:
    """Return what calls an agent that is a tool. Its requests and its tools are steps."""

    async def invoke(context: Any, text: str) -> Any:
        before = OUTER.set(copies)
        try:
            return await tool.on_invoke_tool(context, text)
        finally:
            OUTER.reset(before)

    return around(tool, invoke)


class NestedRunner(AgentRunner):
    """Runs an agent that is a tool in the workflow that calls it. All others run as ever.

    ``Agent.as_tool`` holds its agent and calls ``Runner.run``, which asks the default runner. The
    SDK calls this hook experimental.
    """

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run an agent."""
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
