"""Agents of Pydantic AI as workflows: each model request and each tool call is a step.

This module uses the library's public surface for durable engines (``pydantic_ai.durable_exec``). It
also uses the private parts ``disable_threads`` and ``_model_stream_event_handler``, as the
library's own engine for Temporal does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai._utils import disable_threads
from pydantic_ai.agent import AgentRunResult, EventStreamHandler
from pydantic_ai.capabilities import (
    AbstractCapability,
    HandleDeferredToolCalls,
    ReinjectSystemPrompt,
    WrapRunHandler,
)
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CallToolResult,
    DurabilityEngineSpec,
    DurableOperationBackend,
    DurableOperationId,
    JournalCallableOperationBackend,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetGetToolsId,
)
from pydantic_ai.messages import ModelMessage, UserContent
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.tools import RunContext

from perdure.flows.adapters.approvals import arguments, is_asked_first
from perdure.flows.adapters.heard import HeardWords
from perdure.flows.adapters.prompts import ThreadUse, check_thread, prompt_parts
from perdure.flows.adapters.pydantic_approvals import call_of, deciding
from perdure.flows.adapters.pydantic_models import ModelStep, can_stream, said, show
from perdure.flows.adapters.pydantic_prompts import (
    earlier_history,
    history_of,
    keep_history,
    with_files,
)
from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.workflows.journal import StepFailed
from perdure.flows.workflows.step_decisions import Refused
from perdure.flows.workflows.steps import AsyncSteps, current_steps
from perdure.flows.workflows.workflow_flow import workflow

#: Whether the model of the agent that runs is asked for streams.
_streams: ContextVar[bool] = ContextVar("perdure_streams", default=False)

#: Options of the step of a tool call.
_Options = Mapping[str, Any]


def _tool_options(tool: object | None, is_idempotent: bool) -> _Options | Literal[False]:
    """Return the options of a tool's step, from the tool's ``metadata``.

    Args:
        tool: the tool, or None if it is not known.
        is_idempotent: the option ``idempotent`` if the metadata has no option.

    Returns:
        The options ``idempotent`` and ``in_doubt`` that are set. False if the tool is to run
            outside of a step (``metadata={"step": False}``).
    """
    metadata = getattr(getattr(tool, "tool_def", tool), "metadata", None) or {}
    if metadata.get("step") is False:
        return False
    options = {name: metadata[name] for name in ("idempotent", "in_doubt") if name in metadata}
    return options or {"idempotent": is_idempotent}


class _Backend(JournalCallableOperationBackend[_Options]):
    """The backend that carries out an agent's operations as steps of its workflow."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: _Options,
    ) -> object:
        """Carry out ``body`` as a step. Return the JSON result.

        If a person refused a tool call, the result is the library's form of a failed tool.

        Raises:
            ApprovalRequired: a person was asked about this tool call, so the answer decides.
        """
        steps = current_steps()
        assert steps is not None, "the agent runs in a workflow"
        if isinstance(operation_id, ModelRequestId):
            return await steps.step(
                ModelStep(body, operation_id.streaming),
                name=_named(name),
                role="controller",
                idempotent=True,
                shown={},
                compared={},
                summarize=said,
            )
        if isinstance(operation_id, ToolsetGetToolsId):
            found = f"{_letters(operation_id.toolset_id)}.tools"
            return await steps.step(
                body, name=found, shown={}, compared={}, summarize=_listed_tools, **config
            )
        if not isinstance(operation_id, ToolsetCallToolId):
            return await steps.step(body, name=_named(name), shown={}, compared={}, **config)

        async def call() -> object:
            return _bare(await body())

        tool, args, context = _called(cache_key)
        name, made = _letters(tool), call_of(context, tool, args)
        compared = made.compared(steps, name, args)
        if not context.tool_call_approved and is_asked_first(steps, made, name, compared):
            raise ApprovalRequired  # The answer decides, whatever the toolset's rule says by now.
        try:
            told = await steps.step(
                call, name=name, shown=args, compared=compared, listener="model", **config
            )
        except StepFailed as error:
            if error.error != Refused.__name__:
                raise
            return {"kind": "tool_failed", "message": error.reason}
        return told if _is_packed(told) else {"kind": RETURNED, "result": told}


#: Kind of a tool's plain result, among the result kinds of the library.
RETURNED = "tool_return"
#: The library's forms of a tool call's result. Each has a field ``kind``.
_packed: TypeAdapter[Any] = TypeAdapter(CallToolResult)


def _bare(payload: object) -> object:
    """Return a tool's plain result without its wrapper.

    The wrapper is ``{"kind": "tool_return", ...}``. A person who gives the result of a call in
    doubt gives it without a wrapper, too. Any other payload is returned unchanged, and so is a
    wrapper whose result looks like a wrapper itself.
    """
    match payload:
        case {"kind": "tool_return", "result": result, **others} if not others:
            return payload if _is_packed(result) else result
    return payload


def _is_packed(told: object) -> bool:
    """Return whether a step's result is one of the library's forms.

    Any other result is a plain one, of the tool or of a person, even if it has a key ``kind``.
    """
    if not (isinstance(told, Mapping) and "kind" in told):
        return False
    try:
        _packed.validate_python(told)
    except ValidationError:
        return False
    return True


def _called(cache_key: tuple[object, ...]) -> tuple[str, dict[str, Any], RunContext[Any]]:
    """Return a tool call's name, arguments and context, from its ``cache_key``.

    Raises:
        FatalError: the library's key has a different form.
    """
    match cache_key:
        case (str(name), dict(args), RunContext() as context, *_):
            return name, arguments(args), context
    raise FatalError(f"a tool call of Pydantic AI has the identity {cache_key!r:.200}")


def _listed_tools(payload: Any) -> str:
    """Return the tool names of an MCP server, for people who watch."""
    return ", ".join(payload) if isinstance(payload, Mapping) else str(payload)


def _named(name: str) -> str:
    """Return a short, readable step name for an operation.

    It is ``trader.model`` for ``trader__model.request``.
    """
    agent, _, operation = name.partition("__")
    if operation.startswith("model."):
        # The step has the same name with and without a stream, so that a run can go on with either.
        operation = operation.replace("model.request_stream", "model.request")
        return f"{_letters(agent)}.{_letters(operation.removesuffix('.request'), '-')}"[:90]
    return _letters(name)


def _letters(text: str, between: str = "_") -> str:
    letters = "".join(each if each.isascii() and each.isalnum() else between for each in text)
    return letters[:80].strip(between) or "operation"


@dataclass(init=False)
class PerdureDurability(BaseDurabilityCapability[Any]):
    """A capability that runs an ``Agent`` in a workflow. Each effect of the agent is a step.

    Outside of a workflow, the capability has no effect. A tool with
    ``metadata={"idempotent": True}`` may be called again after its worker was lost. A call of any
    other tool is then in doubt, and a person is asked. A tool with ``metadata={"step": False}``
    runs in the workflow itself, not in a step. So an agent that this tool runs has its own steps.

    Args:
        name: the agent's name in the journal. None: its own name.
        models: other models of the agent by name, for ``agent.run(prompt, model="name")``.
        idempotent: names of tools that may be called again, such as the tools of an MCP server.
        stream: whether the model's reply is shown while it arrives, if the model can stream.

    Attributes:
        engine_spec: the library's description of Perdure.
    """

    engine_spec: ClassVar = DurabilityEngineSpec(
        engine_name="Perdure",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-outside-durable",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        idempotent: Collection[str] = (),
        stream: bool = True,
    ) -> None:
        super().__init__(models=models, event_stream_handler=None, name=name)
        self._idempotent, self._stream = frozenset(idempotent), stream

    @property
    def in_durable_context(self) -> bool:
        """Whether a workflow runs the agent."""
        return current_steps() is not None

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether Pydantic AI asks the model for a stream, whose events this hook then gets."""
        return self.in_durable_context and _streams.get()

    def _model_stream_event_handler(self) -> EventStreamHandler[Any]:
        """Return the handler that shows the stream, within the request's step."""
        return show

    def get_durable_operation_backend(self) -> DurableOperationBackend[_Options]:
        """Return the backend that carries out the agent's operations."""
        once: _Options = {"idempotent": True}

        def options(
            operation_id: DurableOperationId, tool: object | None, tool_name: str
        ) -> _Options | Literal[False]:
            return _tool_options(tool, not tool_name or tool_name in self._idempotent)

        config = RoleBasedOperationConfig[_Options](
            model=once, event=once, capability=once, tool=once, resolve_tool=options
        )
        return _Backend(agent_name=self.name, default_model_id=self.default_model_id, config=config)

    def get_default_run_id(self) -> str | None:
        """Return an id for a run of the agent. None outside of a workflow.

        The id is the same whenever the workflow's function is run again.
        """
        steps = current_steps()
        return None if steps is None else str(steps.uuid())

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Run the agent. In a workflow, the order of its tool calls is the same each time.

        The agent's instructions and output validators run as part of the workflow. If they are
        plain functions, they do not run in threads. Outside of a workflow, the agent runs as usual.
        """
        assert self.agent is not None, "the library binds a capability to its agent"
        if not self.in_durable_context:
            return await handler()
        ordered = self.agent.parallel_tool_call_execution_mode("parallel_ordered_events")
        before = _streams.set(self._stream and can_stream(ctx.model))
        try:
            with disable_threads(), ordered:
                return await handler()
        finally:
            _streams.reset(before)


class _Hearing(AbstractCapability[Any]):
    """A capability that adds messages of people to the agent's next model request."""

    def __init__(self, heard: HeardWords) -> None:
        self._heard = heard

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add the messages to the request, and to the agent's history."""
        if words := await self._heard.before_request():
            ctx.enqueue(words)
        return request_context


def _check_durable(agent: Agent[Any, Any]) -> None:
    """Raise InvalidFlow if an agent has no ``PerdureDurability``. It would run without steps."""
    capabilities = getattr(agent.root_capability, "capabilities", (agent.root_capability,))
    if not any(isinstance(each, PerdureDurability) for each in capabilities):
        raise InvalidFlow(
            f"the agent {agent.name or ''!r} has no PerdureDurability, so its requests and tool "
            "calls would be no steps. Give it capabilities=[PerdureDurability()]"
        )


async def run_agent(
    agent: Agent[Any, Any],
    prompt: str | Sequence[UserContent],
    *,
    thread: ThreadUse = "none",
    **options: Any,
) -> AgentRunResult[Any]:
    """Run an agent in a workflow. A person is asked about tool calls that need approval.

    The person approves the call, refuses it with words for the model, or changes its arguments, as
    for a command.

    Args:
        agent: an agent with ``PerdureDurability`` among its capabilities.
        prompt: the prompt of ``Agent.run``.
        thread: ``text``: the agent gets the earlier messages of the run's thread, then the prompt
            with the files of the submission. ``full``: it also gets the calls, results and files of
            the last completed run of this flow in the thread. ``none``: it gets only the prompt.
        options: other arguments of ``Agent.run``: ``deps``, ``usage_limits``, ...

    Raises:
        InvalidFlow: the agent has no ``PerdureDurability``, or ``message_history`` is given beside
            ``thread``.
        FatalError: the caller is not in a workflow, or the agent calls a tool that is carried out
            elsewhere.
    """
    steps = current_steps()
    if steps is None:
        raise FatalError("run_agent: expected to be called in a coroutine function of @workflow")
    _check_durable(agent)
    check_thread(thread, "run_agent")
    capabilities = [*(options.pop("capabilities", None) or ())]
    capabilities.append(HandleDeferredToolCalls(deciding(steps)))
    if thread != "none":
        if options.get("message_history") is not None:
            raise InvalidFlow(f"run_agent: expected thread={thread!r} or message_history, got both")
        messages, files = prompt_parts(steps)
        before: list[ModelMessage] = []
        if messages and thread == "full":
            before, messages = earlier_history(steps)
        if before or messages:
            options["message_history"] = [*before, *history_of(messages)]
            # The library takes its system prompt to be part of a history.
            capabilities.append(ReinjectSystemPrompt())
        prompt = with_files(prompt, files, steps.context)
    result = await agent.run(prompt, capabilities=capabilities, **options)
    if thread == "full":
        keep_history(steps, result.all_messages())
    return result


def register_agent(
    name: str, agent: Agent[Any, Any], *, thread: ThreadUse = "text", **settings: Any
) -> None:
    """Register an agent as a flow: the goal is its prompt, and its output the run's answer.

    Args:
        name: the name of the flow.
        agent: an agent with ``PerdureDurability`` among its capabilities.
        thread: as for ``run_agent``. Unless it is ``none``, the agent also reads messages and
            questions of people to the run, with its next request. Its output is the reply to the
            questions.
        settings: the settings of ``workflow``.

    Raises:
        InvalidFlow: the name or a setting is not valid, or the agent has no ``PerdureDurability``.
    """
    _check_durable(agent)
    check_thread(thread, f"agent {name!r}")

    async def answer(steps: AsyncSteps, goal: str) -> Any:
        heard = HeardWords(steps)
        hearing: Any = [] if thread == "none" else [_Hearing(heard)]
        result = await run_agent(agent, goal, thread=thread, capabilities=hearing)
        while thread != "none" and (words := await heard.next()):
            history = result.all_messages()
            result = await run_agent(
                agent, words, message_history=history, capabilities=[_Hearing(heard)]
            )
        await heard.reply(result.output)
        if thread == "full":
            keep_history(steps, result.all_messages())
        return result.output

    answer.__doc__ = f"The agent {agent.name or name}."
    answer.__qualname__ = answer.__name__ = name
    workflow(name, **{"reads_messages": thread != "none", **settings})(answer)
