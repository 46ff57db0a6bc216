"""The controller ``model``: a language model decides which command comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from flows.context import PROGRESS_LENGTH, RoundContext
from flows.controllers import Controller, controller
from flows.controllers.model.chat import ChatMessage, Model, ModelFailed, Reply, RequestSettings, SystemMessage, UserMessage
from flows.controllers.model.estimates import LAST, figures, first_estimate, next_estimate
from flows.controllers.model.json_format import instructions
from flows.controllers.model.messages import (
    BYTES_A_TOKEN,
    budget_message,
    bytes_of,
    feedback_message,
    feedback_of,
    group_messages,
    history_messages,
    merged,
)
from flows.controllers.model.names import ToolNames
from flows.controllers.model.prices import TELLS_MONEY, UNPRICED, money_of, price_of
from flows.controllers.model.prompts import rendered
from flows.controllers.model.reading import MAX_LENGTH, beside, decisions_of
from flows.controllers.model.refusals import after_refusal, refused
from flows.controllers.model.settings import missing, read_settings
from flows.controllers.model.target import Target, target_of
from flows.controllers.model.window import Group, Window, shown
from flows.controllers.model.words import can_end, decided, is_in_words, recorded
from flows.conventions import CHAT, INPUT_TOKENS, OPERATION, OUTPUT_TOKENS, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL
from flows.errors import BadReply, FatalError
from flows.outcomes import Command, Interrupt, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two looks that watchers get at a reply as it comes; it travels with a heartbeat anyway.
TOLD_EVERY = 0.2


@controller("model")
class ModelController(Controller):
    """Asks a model once a round; all it knows of the run is the round's context.

    Args:
        settings: see ``settings.ModelSettings``.

    Raises:
        InvalidController: with a sentence for each setting that will not do.
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
    ) -> None:
        given: dict[str, Any] = {"model": model, "base_url": base_url, "api_key": api_key, "system": system, "user": user, "reply": reply}
        given |= {
            "words": words,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "timeout_seconds": timeout_seconds,
            "window": window,
        }
        given |= {"refusal": refusal, "price": price, "unpriced": unpriced}
        given |= {"settings": None if settings is None else dict(settings), "provider": None if provider is None else dict(provider)}
        self.settings = read_settings(given)
        self._window = Window(**self.settings.window.model_dump())
        own = self.settings
        self._request = RequestSettings(own.timeout_seconds, own.temperature, own.max_tokens, own.settings or {})

    @property
    def missing(self) -> str | None:
        """What is not installed here and has to be, in a sentence."""
        return missing()

    async def decide(self, context: RoundContext) -> Command | Interrupt | Turn | list[Command | BadReply]:
        """Make one request, and read the reply; words that a person has answered are not asked for again.

        Raises:
            BadReply: it decides nothing. RetryableError, FatalError: there was none; see ``failures``.
        """
        if self.missing is not None:
            raise FatalError(f"a model cannot be asked by this worker: {self.missing}")
        heard = recorded(context)
        if heard is not None:
            return heard
        from flows.controllers.model.library import opened  # here: it takes seconds and much memory, and few flows need it

        names = ToolNames(each["name"] for each in context.commands)
        target = self._target(context)
        context.providers.enter(target.limits, context)
        try:
            async with opened(target, self.settings.reply, self.settings.timeout_seconds) as model:
                tools = model.has_tools if self.settings.reply == "auto" else self.settings.reply == "tools"
                reply = await self._asked(model, names, context, tools)
        except ModelFailed as failed:
            raise context.providers.failed(target.limits, context, failed.error) from None
        except BaseException:
            context.providers.left(target.limits, context)
            raise
        context.providers.answered(target.limits, context)
        if reply.refusal:
            return refused(reply, self.settings.refusal)
        words = self.settings.words
        if words == "answer" and not can_end(context):
            words = "ask"
        if tools and words != "ask" and is_in_words(reply) and len(reply.text) <= MAX_LENGTH:
            return decided(words, reply, beside(reply), context)
        decisions = decisions_of(reply, names)
        if len(decisions) > 1:
            return decisions
        if isinstance(decisions[0], BadReply):
            raise decisions[0]
        return decisions[0]

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """What a request of this round will cost; see ``estimates``."""
        last = context.committed.get(LAST)
        if last:
            return next_estimate(last, context, self.settings.max_tokens)
        try:
            target = self._target(context)
            size = bytes_of(self.messages(context, ToolNames(()), tools=False), context.commands)
        except FatalError:  # nobody names a model, or a template cannot be filled in: no request will be made
            return {}
        amounts = first_estimate(size, self.settings.max_tokens)
        money = price_of(target, amounts["input_tokens"], amounts["output_tokens"], self.settings.price)
        return amounts if money is None else {**amounts, "money": money}

    def _target(self, context: RoundContext) -> Target:
        own = self.settings
        if own.provider is not None:  # it names its model, and takes no key but its own
            return Target(own.model, None, own.api_key, provider=own.provider)
        return target_of(own.model, own.base_url, own.api_key, context.endpoint)

    def messages(self, context: RoundContext, names: ToolNames, tools: bool) -> list[ChatMessage]:
        """What a request of this round says.

        Args:
            tools: the model calls commands as tools; else it is told of them, and of the form of its replies.
        """
        values = {name: value for name, value in context.values.items() if not name.startswith("_")}
        variables = {
            "goal": context.goal,
            "inputs": dict(context.inputs),
            "node_goal": context.node_goal,
            "commands": list(context.commands),
            "budgets": dict(context.budgets),
            "values": values,
            "recalled": values.get("recalled", []),
        }
        system = rendered(self.settings.system, "system", variables)
        if not tools:
            system = f"{system}\n\n{instructions(context.commands)}".strip()
        visible = shown(context.history, self._window, lambda group: _tokens(group, names, tools))
        feedback = values.get("human_feedback") if len(context.history) else None
        if feedback is not None and any(feedback_of(turn) == feedback for group in (*visible.first, *visible.last) for turn in group):
            feedback = None  # it stands with its turn
        said = [
            *([SystemMessage(system)] if system else []),
            UserMessage(rendered(self.settings.user, "user", variables) or context.goal),
            *history_messages(visible, names, tools, context.artifact),
            *([feedback_message(feedback)] if feedback not in (None, "") else []),
            *after_refusal(context),
            *budget_message(context.budgets),
        ]
        return merged(said)

    async def _asked(self, model: Model, names: ToolNames, context: RoundContext, tools: bool) -> Reply:
        context.traced.update({OPERATION: CHAT, PROVIDER: model.provider[:200], REQUEST_MODEL: model.name[:200]})
        self._check_price(model, context)
        messages = self.messages(context, names, tools)
        schemas = _as_tools(context.commands, names) if tools else []
        try:
            reply = await model.request(messages, schemas, self._request, _teller(context))
        except ModelFailed as failed:
            if failed.billed:
                context.spend(**self.estimate(context))
            raise
        except asyncio.CancelledError:
            context.spend(**self.estimate(context))
            raise
        self._charge(reply, context)
        return reply

    def _check_price(self, model: Model, context: RoundContext) -> None:
        if self.settings.unpriced != "refuse" or "money" not in context.budgets or model.provider in TELLS_MONEY:
            return
        target = self._target(context)
        if price_of(replace(target, model=target.model or model.name), 1, 1, self.settings.price) is None:
            raise FatalError(f"{UNPRICED.format(model=model.name)}; unpriced: refuse, so nothing was asked")

    def _tell_if_unpriced(self, reply: Reply, context: RoundContext) -> None:
        if "money" not in context.budgets or context.committed.get(LAST) or len(context.history):
            return
        if (self.estimate(context) if reply.usage is None else {"money": money_of(reply.usage, self.settings.price)}).get("money") is None:
            context.tell(unpriced=UNPRICED.format(model=reply.model[:200]))

    def _charge(self, reply: Reply, context: RoundContext) -> None:
        usage = reply.usage
        self._tell_if_unpriced(reply, context)
        context.tell(model=reply.model[:200])
        context.traced[RESPONSE_MODEL] = reply.model[:200]
        if usage is None:  # the provider does not say what it will ask for
            context.spend(**self.estimate(context))
            return
        usage = replace(usage, money=money_of(usage, self.settings.price))
        money = {} if usage.money is None else {"money": usage.money}
        read, wrote = usage.input_tokens, usage.output_tokens
        context.traced.update({INPUT_TOKENS: read, OUTPUT_TOKENS: wrote})
        context.spend(tokens=read + wrote, input_tokens=read, output_tokens=wrote, requests=1, **money)
        context.remembered[LAST] = figures(usage, context)


def _tokens(group: Group, names: ToolNames, tools: bool) -> float:
    return bytes_of(group_messages(group, names, tools)) / BYTES_A_TOKEN


def _as_tools(commands: Sequence[Mapping[str, Any]], names: ToolNames) -> list[dict[str, Any]]:
    return [{**each, "name": names.tool(each["name"])} for each in commands]


def _teller(context: RoundContext) -> Callable[[str], None]:
    """Tells watchers the end of the text so far, now and then."""
    last = 0.0

    def heard(text: str) -> None:
        nonlocal last
        now = monotonic()
        if now - last >= TOLD_EVERY:
            last = now
            context.progress(0, None, text if len(text) <= PROGRESS_LENGTH else f"…{text[1 - PROGRESS_LENGTH :]}")

    return heard
