"""Agents of the OpenAI Agents SDK in workflows: each model request and each tool call is a step."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    MultiProvider,
    RunConfig,
    Runner,
    RunResult,
)
from agents.items import TResponseInputItem
from pydantic import ValidationError

from perdure.flows.adapters.approvals import (
    AgentCall,
    agent_call_id,
    arguments,
    decision,
    is_asked_first,
)
from perdure.flows.adapters.heard import HeardWords
from perdure.flows.adapters.openai_models import SteppingModel, SteppingProvider
from perdure.flows.adapters.openai_nested import (
    OUTER,
    around,
    call_tool,
    inner_of,
    run_in_workflow,
)
from perdure.flows.adapters.openai_prompts import (
    HeardInput,
    keep_conversation,
    message_item,
    with_thread,
)
from perdure.flows.adapters.openai_results import (
    fingerprint,
    result_type,
)
from perdure.flows.adapters.openai_servers import MCP_CALL, stepping_server
from perdure.flows.adapters.prompts import ThreadUse, check_thread
from perdure.flows.commands.approval import Approved
from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.workflows.journal import StepFailed
from perdure.flows.workflows.step_decisions import Refused
from perdure.flows.workflows.steps import AsyncSteps, current_steps
from perdure.flows.workflows.workflow_flow import workflow

logger = logging.getLogger("perdure.flow")
#: It is too late for an error: the tool would be called again, or a person asked about it.
CHANGED = (
    "run %s: the tool %s has changed the `context` of its agent. A worker that goes on with the "
    "run makes the context anew and does not see the change. Let the tool return what it has found"
)
#: Approval rules of tools by their names. A rule returns whether a call needs approval. None: the
#: tool's own function decides. Tools of several namespaces may have one name.
Rules = dict[str, list[Callable[[AgentCall], bool | None]]]
#: Tools that would act on the worker's machine, outside of any step.
REFUSED = ("ComputerTool", "LocalShellTool", "ShellTool", "ApplyPatchTool", "CustomTool")


async def run_agent(
    starting_agent: Agent[Any],
    input: str | list[TResponseInputItem],  # noqa: A002
    *,
    idempotent: Collection[str] = (),
    model_provider: ModelProvider | None = None,
    run_config: RunConfig | None = None,
    stream: bool = True,
    thread: ThreadUse = "none",
    **options: Any,
) -> RunResult:
    """Run an agent in a workflow. A person is asked about tool calls that need approval.

    The person approves the call, or refuses it with words for the model.

    Args:
        starting_agent: the agent. It may be the ``last_agent`` of an earlier result.
        input: the prompt, or the items of a conversation.
        idempotent: names of tools that may be called again after their worker was lost. A call of
            any other tool is then in doubt, and a person is asked.
        model_provider: makes the models. None: the provider of ``run_config``.
        run_config: the argument of ``Runner.run``. Its tracing is switched off.
        stream: whether a reply is shown while it arrives, if its model can stream.
        thread: ``text``: the agent gets the earlier messages of the run's thread, then ``input``
            with the files of the submission. ``full``: it also gets the calls, results and files of
            the last completed run of this flow in the thread. ``none``: it gets only ``input``.
        options: the other arguments of ``Runner.run``: ``context``, ``max_turns``, ...

    Raises:
        InvalidFlow: ``thread`` is not a known word, or a ``session`` is given.
        FatalError: the caller is not in a workflow, or a workflow cannot carry out a part of the
            agent.
    """
    steps = current_steps()
    if steps is None:
        raise FatalError("run_agent: expected to be called in a coroutine function of @workflow")
    check_thread(thread, "run_agent")
    if options.get("session") is not None:
        raise InvalidFlow(
            "run_agent: session is not supported: it writes outside of the run's commit, so "
            "another attempt would write twice. Use thread='full', which continues the conversation"
        )
    if thread != "none":
        input = with_thread(input, steps, thread == "full")  # noqa: A001
    copies = _Stepping(steps, frozenset(idempotent), model_provider, stream)
    own, config = copies.agent(starting_agent), copies.config(run_config)
    before = OUTER.set(None)  # A guardrail of an agent that is a tool may run an agent by itself.
    try:
        result = await Runner.run(own, input, run_config=config, **options)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                refusal = await copies.refusal(item)
                if refusal is None:
                    state.approve(item)
                else:
                    state.reject(item, rejection_message=refusal)
            result = await Runner.run(own, state, run_config=config, **options)
    finally:
        OUTER.reset(before)
    if thread == "full":
        keep_conversation(steps, result.to_input_list())
    return result


def register_agent(
    name: str,
    agent: Agent[Any],
    *,
    idempotent: Collection[str] = (),
    model_provider: ModelProvider | None = None,
    stream: bool = True,
    thread: ThreadUse = "text",
    **settings: Any,
) -> None:
    """Register an agent as a flow: the goal is its prompt, and its final output the run's answer.

    Args:
        name: the name of the flow.
        idempotent, model_provider, stream, thread: as for ``run_agent``. Unless the thread is
            ``none``, the agent also reads messages and questions of people to the run, with its
            next request. Its output is the reply to the questions.
        settings: the settings of ``workflow``.

    Raises:
        InvalidFlow: the name or a setting is not valid.
    """
    check_thread(thread, f"agent {name!r}")

    async def answer(steps: AsyncSteps, goal: str) -> Any:
        ask = partial(
            run_agent, idempotent=idempotent, model_provider=model_provider, stream=stream
        )
        if thread == "none":
            return (await ask(agent, goal)).final_output
        heard = HeardWords(steps)
        listening = HeardInput(heard)
        result = await ask(agent, goal, thread=thread, run_config=_hearing(listening))
        while words := await heard.next():
            items = [*listening.whole(result.to_input_list()), message_item("user", words)]
            listening = HeardInput(heard)
            result = await ask(result.last_agent, items, run_config=_hearing(listening))
        await heard.reply(result.final_output)
        if thread == "full":
            keep_conversation(steps, listening.whole(result.to_input_list()))
        return result.final_output

    answer.__doc__ = f"The agent {agent.name or name}."
    answer.__qualname__ = answer.__name__ = name
    workflow(name, **{"reads_messages": thread != "none", **settings})(answer)


def _hearing(listening: HeardInput) -> RunConfig:
    return RunConfig(call_model_input_filter=listening.filter)


class PerdureRunner:
    """A replacement for ``agents.Runner``: its method ``run`` is ``run_agent``."""

    run = staticmethod(run_agent)


class _Stepping:
    """The maker of copies of agents for a workflow. A copy calls its models and tools in steps."""

    def __init__(
        self,
        steps: AsyncSteps,
        idempotent: frozenset[str],
        model_provider: ModelProvider | None,
        stream: bool,
    ) -> None:
        self._steps, self._idempotent, self._stream = steps, idempotent, stream
        self._model_provider = model_provider
        #: Agents and their copies. Both are kept alive, since they are known by their ids.
        self._made: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        #: The rules of each agent's own tools, by the id of the agent.
        self._rules: dict[int, Rules] = {}
        #: The rules of the tools that each agent's MCP servers listed last, by the id of the agent.
        self._mcp_rules: dict[int, Rules] = {}

    def config(self, given: RunConfig | None) -> RunConfig:
        """Return a run configuration with models in steps. Its tracing is switched off.

        Args:
            given: the configuration. None: the SDK's default.
        """
        config = given or RunConfig(model_provider=self._model_provider or MultiProvider())
        provider = self._model_provider or config.model_provider
        return replace(
            config,
            model_provider=SteppingProvider(self._steps, inner_of(provider), self._stream),
            model=self._model(config.model),
            tracing_disabled=True,
        )

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent. The agents of its handoffs are copied, too.

        ``agent`` may be such a copy itself, from the result of an earlier run. Its parts are not
        wrapped a second time: ``inner_of`` finds the originals.
        """
        if id(agent) in self._made:
            return self._made[id(agent)][1]
        rules = self._rules[id(agent)] = {}
        own = agent.clone(
            model=self._model(agent.model),
            tools=[self._tool(tool, agent, rules) for tool in agent.tools],
            mcp_servers=[
                stepping_server(server, self._steps, self._call) for server in agent.mcp_servers
            ],
        )
        own.get_mcp_tools = partial(self._mcp_tools, own, agent)  # type: ignore[method-assign]
        self._made[id(agent)] = self._made[id(own)] = agent, own
        own.handoffs = [
            self.agent(each) if isinstance(each, Agent) else self._handoff(each)
            for each in agent.handoffs
        ]
        return own

    def _model(self, model: Any) -> Any:
        if not isinstance(model, Model):
            return model
        return SteppingModel(self._steps, inner_of(model), self._stream)

    def _tool(self, tool: Any, agent: Agent[Any], rules: Rules) -> Any:
        if type(tool).__name__ in REFUSED:
            raise FatalError(
                f"run {self._steps.run_id}: a workflow cannot carry out the tool {tool.name!r} "
                f"({type(tool).__name__}). Give the agent a function tool"
            )
        if not isinstance(tool, FunctionTool):
            return tool  # carried out by the provider
        inner = inner_of(tool.on_invoke_tool)
        own = inner if isinstance(inner, FunctionTool) else tool
        if getattr(own, "_is_agent_tool", False):
            return replace(own, on_invoke_tool=run_in_workflow(self, own))
        kind = result_type(own)

        async def invoke(context: Any, text: str) -> Any:
            async def body() -> Any:
                shared = getattr(context, "context", None)
                before = fingerprint(shared)
                result = await call_tool(own, context, text)
                if fingerprint(shared) != before:
                    logger.warning(CHANGED, self._steps.run_id, tool.name)
                return kind.dump_python(result, mode="json", warnings=False) if kind else result

            try:
                call = _agent_call(tool.name, text, agent, getattr(context, "tool_call_id", ""))
                compared = call.compared(self._steps, tool.name[:90], call.args)
                told = await self._call(body, tool.name, call.args, compared)
            except StepFailed as error:
                if error.error != Refused.__name__:
                    raise
                return error.reason
            try:
                return kind.validate_python(told) if kind else told
            except ValidationError:
                return told  # A text: the tool has failed, or a person has answered.

        return replace(
            own,
            on_invoke_tool=around(own, invoke),
            needs_approval=self._approval(own, agent, tool.name, rules),
            timeout_seconds=None,
        )

    async def _mcp_tools(self, own: Agent[Any], agent: Agent[Any], context: Any) -> list[Any]:
        """Return the tools of an agent's MCP servers, with the approval rule of function tools.

        Args:
            own: the copy of the agent, with its servers.
        """
        tools = await type(own).get_mcp_tools(own, context)
        rules = self._mcp_rules[id(agent)] = {}
        return [self._mcp_tool(tool, agent, rules) for tool in tools]

    def _mcp_tool(self, tool: Any, agent: Agent[Any], rules: Rules) -> Any:
        async def invoke(context: Any, text: str) -> Any:
            id_ = getattr(context, "tool_call_id", "")
            before = MCP_CALL.set(_agent_call(tool.name, text, agent, id_))
            try:
                return await tool.on_invoke_tool(context, text)
            finally:
                MCP_CALL.reset(before)

        # The agent may know the tool by a longer name than its server, whose name the step has.
        binding = getattr(tool, "_mcp_tool_binding", None)
        own = copy.copy(tool)
        own.on_invoke_tool = invoke
        own.needs_approval = self._approval(
            tool, agent, tool.name if binding is None else binding[1], rules
        )
        return own

    def _approval(
        self, tool: FunctionTool, agent: Agent[Any], step: str, rules: Rules
    ) -> Callable[..., Awaitable[bool]]:
        """Return the approval rule for an agent's calls of a tool.

        If a person was asked about a call, the answer decides it. A call that was carried out needs
        no approval, even if the tool's own rule has changed.

        Args:
            step: the name of the tool's steps.
            rules: gets the rule, too.
        """

        rule: Any = tool.needs_approval

        def is_asked(call: AgentCall) -> bool | None:
            compared = call.compared(self._steps, step[:90], call.args)
            is_first = is_asked_first(self._steps, call, step[:90], compared)
            return bool(rule) if is_first is None and not callable(rule) else is_first

        async def is_needed(context: Any, args: dict[str, Any], call_id: str) -> bool:
            is_known = is_asked(_agent_call(tool.name, args, agent, call_id))
            if is_known is not None:
                return is_known
            needed = rule(context, args, call_id)
            return bool(await needed if inspect.isawaitable(needed) else needed)

        rules.setdefault(tool.name, []).append(is_asked)
        return is_needed

    async def refusal(self, item: Any) -> str | None:
        """Ask a person about a tool call. Return the refusal for the model.

        The SDK wants approval for each call whose arguments are no JSON object, also if the tool's
        rule is ``False``. A person is not asked about such a call if no tool of this name has
        another rule.

        Returns:
            None if the person approved the call, or if the tool needs no approval.
        """
        raw = item.raw_item
        call = _agent_call(raw.name, raw.arguments, item.agent, getattr(raw, "call_id", None) or "")
        [agent, _] = self._made.get(id(item.agent), (item.agent, None))
        is_function = getattr(raw, "type", "") == "function_call"  # not a hosted server's tool
        if is_function and not _is_object(raw.arguments):
            of_agent = (every.get(id(agent), {}) for every in (self._rules, self._mcp_rules))
            rules = [is_asked for each in of_agent for is_asked in each.get(raw.name, ())]
            if rules and all(is_asked(call) is False for is_asked in rules):
                return None
        decided = await decision(self._steps, call)
        if isinstance(decided, Approved):
            return None
        return decided.words or "A person refused this call."

    async def _call(
        self, body: Callable[[], Any], tool: str, args: Mapping[str, Any], compared: Any
    ) -> Any:
        """Call ``body`` in a step of a tool, and return the step's result as JSON data.

        Args:
            body: calls the tool.
            args: the arguments of the call, for people.
            compared: JSON data that distinguishes the step from other steps of its name.
        """
        return await self._steps.step(
            body,
            name=tool[:90],
            idempotent=tool in self._idempotent,
            shown=args,
            compared=compared,
            listener="model",
        )

    def _handoff(self, handoff: Handoff[Any, Any]) -> Handoff[Any, Any]:
        inner = inner_of(handoff.on_invoke_handoff)

        async def invoke(context: Any, text: str) -> Any:
            return self.agent(await inner(context, text))

        return replace(handoff, on_invoke_handoff=around(inner, invoke))


def _is_object(arguments: str) -> bool:
    """Return whether the arguments of a call are a JSON object, which a tool's rule can read."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _agent_call(tool: str, args: Any, agent: Agent[Any], call_id: str) -> AgentCall:
    return AgentCall(tool, arguments(args), agent_call_id(agent, call_id), fixed=True)
