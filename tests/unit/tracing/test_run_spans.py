"""The tracer of runs and rounds, and the names of their attributes."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from perdure.flows.core import genai_attributes
from perdure.worker.tracing.run_spans import tracer


class ProviderLikeLogfires(TracerProvider):
    """A provider that cannot be hashed, as a dataclass cannot."""

    __hash__ = None  # type: ignore[assignment]


def test_a_provider_that_cannot_be_hashed_is_asked_for_its_tracer_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = ProviderLikeLogfires(), ProviderLikeLogfires()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: first)
    made = tracer()
    assert tracer() is made
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: second)
    assert tracer() is not made


def test_the_names_are_those_of_the_conventions() -> None:
    def texts(values: object) -> set[str]:
        each = values if isinstance(values, tuple) else (values,)
        return {text for text in each if isinstance(text, str) and text.startswith("gen_ai.")}

    ours = set().union(*map(texts, vars(genai_attributes).values()))
    assert len(ours) == 17 and ours <= set().union(*map(texts, vars(gen_ai_attributes).values()))
    providers = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    assert set(genai_attributes.PROVIDERS.values()) <= providers
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert {genai_attributes.CHAT, genai_attributes.EXECUTE_TOOL} <= operations
