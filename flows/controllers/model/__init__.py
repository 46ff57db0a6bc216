"""The controller ``model``: a language model decides which command the run executes next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

from perdure.flows.commands.command import CommandSpec
from perdure.flows.commands.controller import Controller, controller
from perdure.flows.commands.notes import note_commands
from perdure.flows.controllers.model import traced_content
from perdure.flows.controllers.model.candidates import (
    IN_USE,
    Candidate,
    Failure,
    candidates_of,
    error_of,
    goes_on,
)
from perdure.flows.controllers.model.chat import (
    ChatMessage,
    Model,
    ModelFailed,
    Reply,
    RequestSettings,
)
from perdure.flows.controllers.model.cost import (
    LAST,
    TELLS_MONEY,
    UNPRICED,
    figures,
    first_estimate,
    money_of,
    next_estimate,
    price_of,
)
from perdure.flows.controllers.model.endpoint import Target
from perdure.flows.controllers.model.errors import refused
from perdure.flows.controllers.model.files import loaded
from perdure.flows.controllers.model.live_reply import shower_of
from perdure.flows.controllers.model.messages import bytes_of
from perdure.flows.controllers.model.parse_reply import (
    MAX_LENGTH,
    beside,
    can_end,
    decided,
    decisions_of,
    is_in_words,
    recorded,
    summary_turn,
)
from perdure.flows.controllers.model.prompt import Prompt, prompt_of
from perdure.flows.controllers.model.setting_keys import PriceKeys
from perdure.flows.controllers.model.settings import missing, read_settings
from perdure.flows.controllers.model.stand_ins import opened as stand_in
from perdure.flows.controllers.model.stand_ins import stand_in_for
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.errors import BadReply, FatalError, RetryableError
from perdure.flows.core.genai_attributes import (
    CACHED_TOKENS,
    CHAT,
    FINISH_REASONS,
    INPUT_TOKENS,
    OPERATION,
    OUTPUT_TOKENS,
    PROVIDER,
    PROVIDERS,
    REQUEST_MODEL,
    RESPONSE_MODEL,
)
from perdure.flows.core.outcomes import Command, Interrupt, Turn
from perdure.flows.rounds.context import RoundContext


@controller("model")
class ModelController(Controller):
    """A controller that sends one model request in each round.

    It keeps no state between rounds: all it knows of the run is the round's context.

    Args:
        settings: Further settings of the model library. ``settings.ModelSettings`` explains this
            and all other arguments.

    Raises:
        InvalidController: Settings are not valid. The error has one sentence for each of them.
    """

    reads_errors = True

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        system: str | None = None,
        user: str | None = None,
        reply: str = "auto",
        words: str = "answer",
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout_seconds: float | None = None,
        window: Mapping[str, int] | None = None,
        refusal: str = "end",
        price: Mapping[str, float] | None = None,
        unpriced: str = "say",
        settings: Mapping[str, Any] | None = None,
        provider: Mapping[str, Any] | None = None,
        models: Sequence[str | Mapping[str, Any]] | None = None,
        fallback: Mapping[str, Any] | None = None,
        compaction: bool = False,
        notes: str | Mapping[str, Any] | None = None,
        allowed_models: Sequence[str | Mapping[str, Any]] | None = None,
    ) -> None:
        values: dict[str, Any] = {
            "model": model,
            "base_url": base_url,
            "api_key": api_key,
            "system": system,
            "user": user,
            "reply": reply,
        }
        values |= {
            "words": words,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "timeout_seconds": timeout_seconds,
            "window": window,
        }
        values |= {"refusal": refusal, "price": price, "unpriced": unpriced}
        values |= {
            "settings": None if settings is None else dict(settings),
            "provider": None if provider is None else dict(provider),
            "models": _listed(models),
            "fallback": fallback,
            "compaction": compaction,
            "notes": dict(notes) if isinstance(notes, Mapping) else notes,
            "allowed_models": _listed(allowed_models),
        }
        self.settings = read_settings(values)
        checked = self.settings
        self._request = RequestSettings(
            checked.timeout_seconds, checked.temperature, checked.max_tokens, checked.settings or {}
        )

    @property
    def allowed_models(self) -> Sequence[str]:
        """The models from which a submission can choose."""
        return [each.model for each in self.settings.allowed_models or () if each.model]

    @cached_property
    def own_commands(self) -> tuple[CommandSpec, ...]:
        """The model's commands for reading and writing notes.

        Empty if the flow does not set ``notes``.
        """
        notes = self.settings.notes
        return () if notes is None else note_commands(notes.namespace, notes.commands)

    @property
    def missing(self) -> str | None:
        """A sentence about packages that this controller lacks here. None if it has all of them."""
        return missing()

    async def decide(
        self, context: RoundContext
    ) -> Command | Interrupt | Turn | list[Command | BadReply]:
        """Ask the model, and return its decision.

        If an earlier attempt has recorded a text-only reply, no request is sent. The decision is
        then a question to a person about that reply. After the person's response, it is ``finish``
        with the text, or a turn with the person's answer.

        Returns:
            The command to execute, a question to a person, or a turn for the history. If the flow
                sets ``compaction``, the turn may be a summary of turns that later requests leave
                out. If the reply has several calls, a list. A BadReply in the list stands for an
                invalid call.

        Raises:
            BadReply: The reply has no valid decision.
            RetryableError, FatalError: There was no reply (``candidates.error_of``), or the model
                refused and the flow does not ask a person.
        """
        if self.missing is not None:
            raise FatalError(f"this worker cannot send requests to a model: {self.missing}")
        recorded_decision = recorded(context)
        if recorded_decision is not None:
            return recorded_decision
        names = ToolNames(each["name"] for each in context.commands)
        reply, tools = await self._first_reply(names, context)
        if reply.compacts_to is not None:
            return summary_turn(reply)
        if reply.refusal:
            return refused(reply, self.settings.refusal)
        policy = self.settings.words
        if policy == "answer" and not can_end(context):
            policy = "ask"
        is_short = len(reply.text) <= MAX_LENGTH
        if tools and policy != "ask" and is_short and is_in_words(reply, names):
            return decided(policy, reply, beside(reply), context)
        decisions = decisions_of(reply, names, tools)
        if len(decisions) > 1:
            return decisions
        if isinstance(decisions[0], BadReply):
            raise decisions[0]
        return decisions[0]

    async def _first_reply(self, names: ToolNames, context: RoundContext) -> tuple[Reply, bool]:
        """Ask the models in order, until one replies.

        A model that refuses to reply counts as failed if the flow's ``fallback`` says so and
        another model is left.

        Returns:
            The reply, and whether commands were offered as tools.

        Raises:
            BadReply: The provider rejected a tool call of the model.
            RetryableError, FatalError: There was no reply; see ``candidates.error_of``.
        """
        candidates = candidates_of(self.settings, context)
        failures: list[Failure] = []
        for candidate in candidates:
            is_last = len(failures) + 1 == len(candidates)
            try:
                reply, tools = await self._ask(candidate, names, context)
            except ModelFailed as failed:
                failures.append(Failure(candidate, failed))
                if is_last or not goes_on(failures[-1], self.settings.fallback, context):
                    raise error_of(failures) from None
                continue
            if reply.refusal and self.settings.fallback.refused and not is_last:
                refusal = FatalError(f"model {reply.model!r} refuses: {reply.refusal}")
                failures.append(Failure(candidate, ModelFailed(refusal, True, "refused")))
                continue
            if failures:
                context.remembered[IN_USE] = candidate.target.limits
                context.tell(fallback="; ".join(map(str, failures)))
            return reply, tools
        raise AssertionError("a round asks at least one model")

    async def _ask(
        self, candidate: Candidate, names: ToolNames, context: RoundContext
    ) -> tuple[Reply, bool]:
        """Send the round's request to one model.

        Returns:
            The reply, and whether commands were offered as tools.

        Raises:
            ModelFailed: There was no reply, or the limits of the provider allow no request now.
        """
        limits, reply_format = candidate.target.limits, self.settings.reply
        try:
            context.providers.enter(limits, context)
        except RetryableError as error:
            raise ModelFailed(error, billed=False) from None
        try:
            async with self._opened(candidate.target, context) as model:
                tools = model.has_tools if reply_format == "auto" else reply_format == "tools"
                reply = await self._request_reply(model, candidate, names, context, tools)
        except ModelFailed as failed:
            failed.error = context.providers.failed(limits, context, failed.error)
            raise
        except BaseException:
            context.providers.left(limits, context)
            raise
        context.providers.answered(limits, context)
        return reply, tools

    def _opened(self, target: Target, context: RoundContext) -> AbstractAsyncContextManager[Model]:
        """Open a target's model for this round's request.

        Raises:
            ModelFailed: The target names a fake model that does not exist.
        """
        if stand_in_for(target.model) is not None:
            try:
                return nullcontext(stand_in(str(target.model), context))
            except FatalError as error:
                raise ModelFailed(error, billed=False) from None
        # Imported here, because the library takes seconds and much memory, and few flows need it.
        from perdure.flows.controllers.model.provider import opened

        return opened(target, self.settings.reply, self.settings.timeout_seconds)

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """Return the estimated cost of this round's model request, by budget (see ``cost``).

        The result is empty if there will be no request. The budget ``money`` is missing if no price
        is known.
        """
        last = context.committed.get(LAST)
        if last:
            return next_estimate(last, context, self.settings.max_tokens)
        try:
            first = candidates_of(self.settings, context)[0]
            size = bytes_of(self.messages(context, ToolNames(()), tools=False), context.commands)
        except FatalError:  # no model is configured, or a template fails: there will be no request
            return {}
        amounts = first_estimate(size, self.settings.max_tokens)
        money = price_of(
            first.target, amounts["input_tokens"], amounts["output_tokens"], first.price
        )
        return amounts if money is None else {**amounts, "money": money}

    def prompt_for(self, context: RoundContext, tools: bool = True) -> Mapping[str, Any] | None:
        """Return this round's model request as data for people. It is never None.

        The request is not sent.

        Args:
            tools: Whether commands are offered as tools. It is used only if the setting ``reply``
                is ``auto``.
        """
        names = ToolNames(each["name"] for each in context.commands)
        has_tools = tools if self.settings.reply == "auto" else self.settings.reply == "tools"
        prompt = prompt_of(self.settings, context, names, has_tools)
        return {**prompt.data, "digest": prompt.digest}

    def messages(self, context: RoundContext, names: ToolNames, tools: bool) -> list[ChatMessage]:
        """Build the messages of this round's request (see ``prompt_of``)."""
        return list(prompt_of(self.settings, context, names, tools).messages)

    async def _request_reply(
        self,
        model: Model,
        candidate: Candidate,
        names: ToolNames,
        context: RoundContext,
        tools: bool,
    ) -> Reply:
        """Send the round's request to a model, and charge the request to the budgets.

        A cancelled request is charged with its estimated cost. So is a failed request, if the
        provider may charge for it.

        Raises:
            ModelFailed: There was no reply, or the money budget requires a price that is not known.
            CancelledError: The round was cancelled.
        """
        provider = PROVIDERS.get(model.provider, model.provider[:200])
        context.traced.update(
            {OPERATION: CHAT, PROVIDER: provider, REQUEST_MODEL: model.name[:200]}
        )
        self._check_price(model, candidate, context)
        prompt = prompt_of(self.settings, context, names, tools)
        request = replace(self._request, run_id=context.run_id)
        context.tell(prompt=_traces_of(prompt, context, tools))
        if context.traces_content:
            context.traced.update(traced_content.of_request(prompt.messages, prompt.tools))
        messages = loaded(prompt.messages, context)
        try:
            reply = await model.request(messages, prompt.tools, request, shower_of(context))
        except ModelFailed as failed:
            if failed.billed:
                context.spend(**self.estimate(context))
            raise
        except asyncio.CancelledError:
            context.spend(**self.estimate(context))
            raise
        self._charge(reply, candidate.price, context)
        if context.traces_content:
            context.traced.update(traced_content.of_reply(reply))
        return replace(reply, dropped_to=prompt.dropped_to, compacts_to=prompt.compacts_to)

    def _check_price(self, model: Model, candidate: Candidate, context: RoundContext) -> None:
        """Raise ModelFailed if the run has a money budget and the model's price is unknown.

        Nothing is checked if the flow does not set ``unpriced: refuse``, or if the provider reports
        the cost itself.
        """
        if (
            self.settings.unpriced != "refuse"
            or "money" not in context.budgets
            or model.provider in TELLS_MONEY
        ):
            return
        target = candidate.target
        named = replace(target, model=target.model or model.name)
        if price_of(named, 1, 1, candidate.price) is None:
            error = FatalError(
                f"{UNPRICED.format(model=model.name)}; no request was made (unpriced: refuse)"
            )
            raise ModelFailed(error, billed=False)

    def _report_if_unpriced(
        self, reply: Reply, price: PriceKeys | None, context: RoundContext
    ) -> None:
        """Report an ineffective money budget in the first event.

        It is ineffective if no price is known for the model. A run without a money budget reports
        nothing.
        """
        if "money" not in context.budgets or context.committed.get(LAST) or len(context.history):
            return
        if (
            {**self.estimate(context), **_reported(reply, price)}
            if reply.usage is None
            else {"money": money_of(reply.usage, price)}
        ).get("money") is None:
            context.tell(unpriced=UNPRICED.format(model=reply.model[:200]))

    def _charge(self, reply: Reply, price: PriceKeys | None, context: RoundContext) -> None:
        """Charge a model's reply to the budgets, and store its usage for the next estimate.

        If the provider does not report the usage, the estimate is charged.
        """
        usage = reply.usage
        self._report_if_unpriced(reply, price, context)
        context.tell(model=reply.model[:200])
        context.traced.update({RESPONSE_MODEL: reply.model[:200], FINISH_REASONS: (reply.ended,)})
        if usage is None:  # the provider does not report the charge
            context.spend(**{**self.estimate(context), **_reported(reply, price)})
            return
        amount = money_of(usage, price)
        money = {} if amount is None else {"money": amount}
        read, wrote = usage.input_tokens, usage.output_tokens
        context.traced.update({INPUT_TOKENS: read, OUTPUT_TOKENS: wrote})
        context.spend(
            tokens=read + wrote, input_tokens=read, output_tokens=wrote, requests=1, **money
        )
        if usage.cached_tokens:
            context.traced[CACHED_TOKENS] = usage.cached_tokens
            context.spend(cached_tokens=usage.cached_tokens)
        context.remembered[LAST] = figures(usage, price, context)


def _reported(reply: Reply, price: PriceKeys | None) -> dict[str, float]:
    return {} if reply.money is None or price is not None else {"money": reply.money}


def _traces_of(prompt: Prompt, context: RoundContext, tools: bool) -> dict[str, Any]:
    """Return the facts that identify a prompt in an event: number of turns, and digest.

    With them, the prompt can be built again and compared.
    """
    traces: dict[str, Any] = {"turns": len(context.history), "digest": prompt.digest}
    return traces if tools else {**traces, "tools": False}


def _listed(models: Any) -> Any:
    return list(models) if isinstance(models, Sequence) and not isinstance(models, str) else models
