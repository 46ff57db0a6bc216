"""The cost of model responses in the OpenAI Agents SDK, by ``genai-prices``."""

from __future__ import annotations

from typing import Any

from agents import Usage


def name_of(model: object) -> str:
    """Return the name of an SDK model. Empty if the model object has no name."""
    name = getattr(model, "model", None)
    return name if isinstance(name, str) else ""


def money_of(usage: Usage, model: object, response_model: str) -> dict[str, float]:
    """Return the cost of a response in US dollars, under ``money``.

    Args:
        model: the model that got the request.
        response_model: the name of the model in the response. It may be empty.

    Returns:
        An empty dict if no price is known, or if ``genai-prices`` is not installed.
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
    """Return ways to look up a price, most exact first.

    Each is a dict of keyword arguments for ``calc_price``. It contains the URL of the model's
    provider, or the provider that the model's name begins with (``anthropic/claude``), or only the
    name.
    """
    address = str(getattr(getattr(model, "_client", None), "base_url", None) or "")
    provider, slash, rest = name.partition("/")
    return [
        *([{"model_ref": name, "provider_api_url": address}] if address else []),
        *([{"model_ref": rest, "provider_id": provider}] if slash else []),
        {"model_ref": name},
    ]
