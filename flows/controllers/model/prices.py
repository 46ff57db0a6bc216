"""What tokens cost: as the flow says, else from the price list of the model library."""

from __future__ import annotations

from flows.controllers.model.chat import Usage
from flows.controllers.model.settings import PriceKeys
from flows.controllers.model.target import Target

#: The unit of prices.
MILLION = 1_000_000
#: Providers that say with each reply what they ask for.
TELLS_MONEY = frozenset({"openrouter"})
UNPRICED = (
    "the budget of money limits nothing: no price is known of model {model!r}; say price: {{input: ..., output: ...}} "
    "(US dollars per million tokens) under Controller, or give the flow a budget of tokens"
)


def money_of(usage: Usage, price: PriceKeys | None) -> float | None:
    """Return what a request cost in US dollars: by the flow's price, else as its provider or the price list says."""
    if price is None:
        return usage.money
    cached = min(usage.cached_tokens, usage.input_tokens)
    read = (usage.input_tokens - cached) * price.input + cached * (price.input if price.cached is None else price.cached)
    return (read + usage.output_tokens * price.output) / MILLION


def price_of(target: Target, tokens_in: float, tokens_out: float, price: PriceKeys | None = None) -> float | None:
    """Return what so many tokens cost in US dollars, before the request; None if no price is known."""
    if price is not None:
        return (tokens_in * price.input + tokens_out * price.output) / MILLION
    if target.model is None:
        return None
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    provider, colon, name = target.model.partition(":") if target.url is None else ("", "", target.model)
    usage = Usage(input_tokens=round(tokens_in), output_tokens=round(tokens_out))
    try:
        return float(calc_price(usage, name if colon else target.model, provider_id=provider if colon else None).total_price)
    except (LookupError, ValueError):
        return None
