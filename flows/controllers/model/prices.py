"""What tokens cost, before a provider has said anything: from the price list of the model library."""

from __future__ import annotations

from flows.controllers.model.target import Target


def price_of(target: Target, tokens_in: float, tokens_out: float) -> float | None:
    """US dollars; None where the list does not have the model, or there is no list."""
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
