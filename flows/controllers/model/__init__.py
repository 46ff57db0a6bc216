"""The controller ``model``: a language model decides which command the run executes next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from perdure.flows.context import PROGRESS_LENGTH, RoundContext
from perdure.flows.controllers import Controller, controller
from perdure.flows.controllers.model.chat import (
    ChatMessage,
    Model,
    ModelFailed,
    Piece,
    Reply,
    RequestSettings,
    SystemMessage,
    UserMessage,
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
from perdure.flows.controllers.model.endpoint import Target, target_of
from perdure.flows.controllers.model.errors import after_refusal, refused
from perdure.flows.controllers.model.history_window import Group, Window, shown
from perdure.flows.controllers.model.messages import (
    BYTES_A_TOKEN,
    budget_message,
    bytes_of,
    feedback_message,
    feedback_of,
    group_messages,
    history_messages,
    instructions,
    merged,
)
from perdure.flows.controllers.model.parse_reply import (
    MAX_LENGTH,
    beside,
    can_end,
    decided,
    decisions_of,
    is_in_words,
    recorded,
)
from perdure.flows.controllers.model.settings import missing, read_settings, rendered
from perdure.flows.controllers.model.stand_ins import opened as stand_in
from perdure.flows.controllers.model.stand_ins import stand_in_for
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.errors import BadReply, FatalError
from perdure.flows.genai_attributes import (
    CHAT,
    INPUT_TOKENS,
    OPERATION,
    OUTPUT_TOKENS,
    PROVIDER,
    REQUEST_MODEL,
    RESPONSE_MODEL,
)
from perdure.flows.outcomes import Command, Interrupt, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

#: Minimum seconds between two progress reports of an incoming reply. Reports travel with heartbeats
#: in any case.
TOLD_EVERY = 0.2


@controller("model")
class ModelController(Controller):
    """A controller that makes one request to a model each round.

    All it knows of the run is the round's context.

    Args:
        settings: See ``settings.ModelSettings`` for all arguments.

    Raises:
        InvalidController: Settings are invalid. It has one sentence for each.
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
        }
        self.settings = read_settings(values)
        self._window = Window(**self.settings.window.model_dump())
        checked = self.settings
        self._request = RequestSettings(
            checked.timeout_seconds, checked.temperature, checked.max_tokens, checked.settings or {}
        )

    @property
    def missing(self) -> str | None:
        """A sentence about packages that the model controller lacks here; None if it has all."""
        return missing()

    async def decide(
        self, context: RoundContext
    ) -> Command | Interrupt | Turn | list[Command | BadReply]:
        """Send one request to the model, and return the decision in its reply.

        If the model already replied in text in this round and a person has answered, there is no
        request.

        Raises:
            BadReply: The reply decides nothing.
            RetryableError, FatalError: There was no reply; see ``errors.failed``.
        """
        if self.missing is not None:
            raise FatalError(f"this worker cannot send requests to a model: {self.missing}")
        recorded_decision = recorded(context)
        if recorded_decision is not None:
            return recorded_decision
        names = ToolNames(each["name"] for each in context.commands)
        target = self._target(context)
        context.providers.enter(target.limits, context)
        try:
            async with self._opened(target, context) as model:
                tools = (
                    model.has_tools
                    if self.settings.reply == "auto"
                    else self.settings.reply == "tools"
                )
                reply = await self._request_reply(model, names, context, tools)
        except ModelFailed as failed:
            raise context.providers.failed(target.limits, context, failed.error) from None
        except BaseException:
            context.providers.left(target.limits, context)
            raise
        context.providers.answered(target.limits, context)
        if reply.refusal:
            return refused(reply, self.settings.refusal)
        policy = self.settings.words
        if policy == "answer" and not can_end(context):
            policy = "ask"
        if tools and policy != "ask" and is_in_words(reply) and len(reply.text) <= MAX_LENGTH:
            return decided(policy, reply, beside(reply), context)
        decisions = decisions_of(reply, names)
        if len(decisions) > 1:
            return decisions
        if isinstance(decisions[0], BadReply):
            raise decisions[0]
        return decisions[0]

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """Return an estimate of what a request to the model in this round will cost, by budget.

        See ``cost``.
        """
        last = context.committed.get(LAST)
        if last:
            return next_estimate(last, context, self.settings.max_tokens)
        try:
            target = self._target(context)
            size = bytes_of(self.messages(context, ToolNames(()), tools=False), context.commands)
        except FatalError:  # no model is configured, or a template fails: there will be no request
            return {}
        amounts = first_estimate(size, self.settings.max_tokens)
        money = price_of(
            target, amounts["input_tokens"], amounts["output_tokens"], self.settings.price
        )
        return amounts if money is None else {**amounts, "money": money}

    def _opened(self, target: Target, context: RoundContext) -> AbstractAsyncContextManager[Model]:
        """Open the model of a target for the request of this round."""
        if stand_in_for(target.model) is not None:
            return nullcontext(stand_in(str(target.model), context))
        # Imported here, because the library takes seconds and much memory, and few flows need it.
        from perdure.flows.controllers.model.provider import opened

        return opened(target, self.settings.reply, self.settings.timeout_seconds)

    def _target(self, context: RoundContext) -> Target:
        """Return the model, the server and the key that this flow's requests use."""
        own = self.settings
        name = stand_in_for(own.model or context.endpoint.model)
        if name is not None:
            return Target(name)
        if own.provider is not None:  # it requires a model, and uses only its own key
            return Target(own.model, None, own.api_key, provider=own.provider)
        return target_of(own.model, own.base_url, own.api_key, context.endpoint)

    def messages(self, context: RoundContext, names: ToolNames, tools: bool) -> list[ChatMessage]:
        """Build the chat messages of a request to the model in this round.

        Args:
            tools: Whether the model calls commands as tools. Otherwise the prompt lists the
                commands and the format of replies.
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
        if feedback is not None and any(
            feedback_of(turn) == feedback
            for group in (*visible.first, *visible.last)
            for turn in group
        ):
            feedback = None  # it is shown with its turn
        chat = [
            *([SystemMessage(system)] if system else []),
            UserMessage(rendered(self.settings.user, "user", variables) or context.goal),
            *history_messages(visible, names, tools, context.artifact),
            *([feedback_message(feedback)] if feedback not in (None, "") else []),
            *after_refusal(context),
            *budget_message(context.budgets),
        ]
        return merged(chat)

    async def _request_reply(
        self, model: Model, names: ToolNames, context: RoundContext, tools: bool
    ) -> Reply:
        """Send the round's request to the model, and charge its cost to the run's budgets."""
        context.traced.update(
            {OPERATION: CHAT, PROVIDER: model.provider[:200], REQUEST_MODEL: model.name[:200]}
        )
        self._check_price(model, context)
        messages = self.messages(context, names, tools)
        schemas = _as_tools(context.commands, names) if tools else []
        try:
            reply = await model.request(messages, schemas, self._request, _shower(context))
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
        """Raise FatalError if a run limits money, but no price is known for its model.

        This applies only to flows that set ``unpriced: refuse``.
        """
        if (
            self.settings.unpriced != "refuse"
            or "money" not in context.budgets
            or model.provider in TELLS_MONEY
        ):
            return
        target = self._target(context)
        if (
            price_of(replace(target, model=target.model or model.name), 1, 1, self.settings.price)
            is None
        ):
            raise FatalError(
                f"{UNPRICED.format(model=model.name)}; no request was made (unpriced: refuse)"
            )

    def _report_if_unpriced(self, reply: Reply, context: RoundContext) -> None:
        """Report in a run's first event that its money budget has no effect.

        This is so if no price is known for the model. A run without a money budget reports nothing.
        """
        if "money" not in context.budgets or context.committed.get(LAST) or len(context.history):
            return
        if (
            self.estimate(context)
            if reply.usage is None
            else {"money": money_of(reply.usage, self.settings.price)}
        ).get("money") is None:
            context.tell(unpriced=UNPRICED.format(model=reply.model[:200]))

    def _charge(self, reply: Reply, context: RoundContext) -> None:
        """Charge a model's reply to the run's budgets, and remember its usage for estimates."""
        usage = reply.usage
        self._report_if_unpriced(reply, context)
        context.tell(model=reply.model[:200])
        context.traced[RESPONSE_MODEL] = reply.model[:200]
        if usage is None:  # the provider does not report what it charges
            context.spend(**self.estimate(context))
            return
        usage = replace(usage, money=money_of(usage, self.settings.price))
        money = {} if usage.money is None else {"money": usage.money}
        read, wrote = usage.input_tokens, usage.output_tokens
        context.traced.update({INPUT_TOKENS: read, OUTPUT_TOKENS: wrote})
        context.spend(
            tokens=read + wrote, input_tokens=read, output_tokens=wrote, requests=1, **money
        )
        context.remembered[LAST] = figures(usage, context)


def _tokens(group: Group, names: ToolNames, tools: bool) -> float:
    """Return the estimated number of tokens that a past reply and its results take in a prompt."""
    return bytes_of(group_messages(group, names, tools)) / BYTES_A_TOKEN


def _as_tools(commands: Sequence[Mapping[str, Any]], names: ToolNames) -> list[dict[str, Any]]:
    return [{**each, "name": names.tool(each["name"])} for each in commands]


def _shower(context: RoundContext) -> Callable[[Piece], None]:
    """Return a function that shows a model's incoming reply as live text, and as progress.

    Progress is the end of the text. It is reported at most once in TOLD_EVERY seconds.
    """
    last_report, tail = 0.0, ""

    def show(piece: Piece) -> None:
        """Show a piece of the reply, and report progress if no report is recent."""
        nonlocal last_report, tail
        context.stream(piece.text, piece.kind, piece.tool)
        if piece.kind == "arguments":
            return
        tail = (tail + piece.text)[-PROGRESS_LENGTH - 1 :]
        now = monotonic()
        if now - last_report >= TOLD_EVERY:
            last_report = now
            context.progress(
                0, None, tail if len(tail) <= PROGRESS_LENGTH else f"…{tail[1 - PROGRESS_LENGTH :]}"
            )

    return show
