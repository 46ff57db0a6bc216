"""Prices of responses to OpenAI Agents SDK agents, from ``genai-prices``."""

from __future__ import annotations

from typing import Any

from agents import Usage


def name_of(model: object) -> str:
    """Return the name of an SDK model. Empty if it has none."""
    name = getattr(model, "model", None)
    return name if isinstance(name, str) else ""


def money_of(usage: Usage, model: object, response_model: str) -> dict[str, float]:
    """Return the cost of a response in US dollars, as ``money``. Empty if no price is known.

    Args:
        model: the model that was asked.
        response_model: the model that the response names, or nothing.
    """
    try:
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price
    except ImportError:
        return {}
    details = usage.input_tokens_details
    used = PricedUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=details.cached_tokens,
        cache_write_tokens=getattr(details, "cache_write_tokens", 0) or 0,
    )
    for name in dict.fromkeys(filter(None, (response_model, name_of(model)))):
        for known in _providers(model, name):
            try:
                return {"money": float(calc_price(used, **known).total_price)}
            except (LookupError, ValueError):
                continue
    return {}


def _providers(model: object, name: str) -> list[dict[str, Any]]:
    """Return references to a model in the price list, most exact first.

    A reference has the address of its provider, the provider in the model's name
    (``anthropic/claude``), or the name alone.
    """
    address = str(getattr(getattr(model, "_client", None), "base_url", None) or "")
    provider, slash, rest = name.partition("/")
    return [
        *([{"model_ref": name, "provider_api_url": address}] if address else []),
        *([{"model_ref": rest, "provider_id": provider}] if slash else []),
        {"model_ref": name},
    ]
