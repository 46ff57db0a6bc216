"""The cost of requests to a model: prices of tokens, and estimates before a request is sent.

Prices come from the flow, else from the model library's price list. An estimate is too high rather
than too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.flows.controllers.model.chat import Usage
from perdure.flows.controllers.model.endpoint import Target
from perdure.flows.controllers.model.messages import BYTES_A_TOKEN, FRAME, text_of
from perdure.flows.controllers.model.setting_keys import PriceKeys
from perdure.flows.core.reply_extras import FEEDBACK, bytes_of_reply, public
from perdure.flows.rounds.context import RoundContext

#: Prices are for this many tokens.
MILLION = 1_000_000
#: Providers that report the cost in each reply.
TELLS_MONEY = frozenset({"openrouter"})
UNPRICED = (
    "the money budget has no effect: no price is known for model {model!r}; set price: {{input: "
    "..., output: ...}} (US dollars per million tokens) under Controller, "
    "or use a budget of tokens"
)


def money_of(usage: Usage, price: PriceKeys | None) -> float | None:
    """Return a finished request's cost in US dollars.

    Args:
        price: The flow's price. None: the cost that the provider or the price list gave
            (``usage.money``).

    Returns:
        None if no price is known.
    """
    if price is None:
        return usage.money
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    read = (
        (usage.input_tokens - cached - written) * price.input
        + cached * (price.input if price.cached is None else price.cached)
        + written * (price.input if price.cache_write is None else price.cache_write)
    )
    return (read + usage.output_tokens * price.output) / MILLION


def money_uncached_of(usage: Usage, price: PriceKeys | None) -> float | None:
    """Return the cost in US dollars that a finished request would have had without a cache.

    The next request may find nothing in the cache, so its estimate uses this cost.

    Returns:
        None if no price is known.
    """
    if price is not None:
        return (usage.input_tokens * price.input + usage.output_tokens * price.output) / MILLION
    return usage.money if usage.money_uncached is None else usage.money_uncached


def price_of(
    target: Target, tokens_in: float, tokens_out: float, price: PriceKeys | None = None
) -> float | None:
    """Return the cost in US dollars of a request with these numbers of input and output tokens.

    Args:
        price: The flow's price. None: the model library's price list.

    Returns:
        None if no price is known, or if the price list is not installed.
    """
    if price is not None:
        return (tokens_in * price.input + tokens_out * price.output) / MILLION
    if target.model is None:
        return None
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    provider, colon, name = (
        target.model.partition(":") if target.url is None else ("", "", target.model)
    )
    usage = Usage(input_tokens=round(tokens_in), output_tokens=round(tokens_out))
    try:
        return float(
            calc_price(
                usage, name if colon else target.model, provider_id=provider if colon else None
            ).total_price
        )
    except (LookupError, ValueError):
        return None


#: Assumed tokens of a reply if there is no limit and no earlier reply.
REPLY_TOKENS = 2_000
#: Name of the value that holds the last request's numbers: input tokens, output tokens, money, and
#: the number of turns.
LAST = "_model"


def first_estimate(prompt_bytes: int, max_tokens: int | None) -> dict[str, float]:
    """Return the first request's estimated spending, by budget, without money.

    It counts all bytes of the prompt, and a reply of ``max_tokens`` tokens (``REPLY_TOKENS`` if
    that is None).
    """
    return _amounts(prompt_bytes / BYTES_A_TOKEN, max_tokens or REPLY_TOKENS, None)


def next_estimate(
    last: Sequence[Any], context: RoundContext, max_tokens: int | None
) -> dict[str, float]:
    """Return the next request's estimated spending, by budget.

    It is computed from the last request's numbers, the turns added since, and a reply twice as long
    as the last one. The budget ``money`` is missing if no price was known.

    Args:
        last: The numbers of the last request (``figures``).
        max_tokens: The limit of a reply's tokens. None for no limit.
    """
    read, wrote, money, turns = last
    added = sum(_bytes_of_turn(turn) for turn in context.history[int(turns) :])
    tokens_in = read + added / BYTES_A_TOKEN
    tokens_out = max(2 * wrote, 200)
    if max_tokens is not None:
        tokens_out = min(tokens_out, max_tokens)
    price = money / (read + wrote) if money is not None and read + wrote else None
    return _amounts(tokens_in, tokens_out, price)


def figures(usage: Usage, price: PriceKeys | None, context: RoundContext) -> list[float | None]:
    """Return the numbers of a finished request that the next estimate needs.

    They are input tokens, output tokens, money without a cache (None if no price is known), and the
    length of the run's history.
    """
    money = money_uncached_of(usage, price)
    return [usage.input_tokens, usage.output_tokens, money, len(context.history)]


def _amounts(tokens_in: float, tokens_out: float, price: float | None) -> dict[str, float]:
    read, wrote = round(tokens_in), round(tokens_out)
    amounts: dict[str, float] = {
        "tokens": read + wrote,
        "input_tokens": read,
        "output_tokens": wrote,
        "requests": 1,
    }
    # An output token costs more than an input token, with most providers four times as much. The
    # next request may have a larger share of them.
    return amounts if price is None else {**amounts, "money": price * (read + 2 * wrote)}


def _bytes_of_turn(turn: Any) -> int:
    size = 0
    if turn.command is not None:
        text = text_of({**public(turn.command.extras), "args": dict(turn.command.args)})
        size = len(text.encode("utf-8", "replace")) + bytes_of_reply(turn.command.extras)
        size += len(text_of(turn.command.extras.get(FEEDBACK, "")).encode("utf-8", "replace"))
    return FRAME + size + len(text_of(turn.observation).encode("utf-8", "replace"))
