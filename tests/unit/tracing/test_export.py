"""Whether a program exports its traces: OpenTelemetry's own variables decide, and a program with a
provider keeps it.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from perdure.worker.tracing.export import ENDPOINTS, PROTOCOLS, set_up
from perdure.worker.tracing.switch import is_on

HERE = "http://127.0.0.1:9"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The providers that were set. (None is really: that would be for good.)"""
    found: list[Any] = []
    for name in (
        *ENDPOINTS,
        *PROTOCOLS,
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_EXPORTER",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trace, "set_tracer_provider", found.append)
    return found


def set_up_with(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    set_up()


def test_without_an_endpoint_nothing_is_set_up(made: list[Any]) -> None:
    set_up()
    assert made == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "perdure"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,a=b"}, "theirs"),
    ],
)
def test_an_endpoint_is_exported_to_under_the_name_of_the_service(
    made: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    variables: dict[str, str],
    service: str,
) -> None:
    set_up_with(monkeypatch, **{endpoint: HERE}, **variables)
    [provider] = made
    assert (
        isinstance(provider, TracerProvider)
        and provider.resource.attributes["service.name"] == service
    )
    provider.shutdown()


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_what_is_switched_off_or_spoken_otherwise_is_not_set_up(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    set_up_with(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=HERE, **variables)
    assert made == []


def test_a_provider_of_the_apps_own_is_left(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    assert is_on()
    set_up_with(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=HERE)
    assert made == []


def test_without_the_sdk_it_says_what_to_install(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING, "perdure"):
        set_up_with(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=HERE)
    assert made == [] and "pip install 'perdure[otel]'" in caplog.text


def test_a_setting_that_does_not_read_costs_a_line_in_the_log(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "perdure"):
        set_up_with(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=HERE, OTEL_BSP_MAX_QUEUE_SIZE="-1")
    assert made == [] and "ValueError" in caplog.text
