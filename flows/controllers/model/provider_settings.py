"""The keys whose values are passed to the model library: ``settings`` and ``provider``.

``settings`` are added to each request. ``provider`` has arguments of the provider's class. Both are
validated when the flow is read, against the library's own definitions. The library is imported only
for flows that use these keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.flows.core.names import suggest
from perdure.flows.core.secrets import is_reference, secret_of

#: A fault: a path below Controller, and a sentence.
Fault = tuple[tuple[str | int, ...], str]
#: Settings that Perdure sets itself, and the keys under Controller to use instead.
OWN = {
    "timeout": "timeout_seconds",
    "request_timeout": "timeout_seconds",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
}
#: The library's settings classes, by the prefix of their settings. Each needs its provider's own
#: package.
CLASSES = {
    "openai": "openai:OpenAIResponsesModelSettings",
    "anthropic": "anthropic:AnthropicModelSettings",
    "bedrock": "bedrock:BedrockModelSettings",
    "cerebras": "cerebras:CerebrasModelSettings",
    "cohere": "cohere:CohereModelSettings",
    "google": "google:GoogleModelSettings",
    "groq": "groq:GroqModelSettings",
    "huggingface": "huggingface:HuggingFaceModelSettings",
    "mistral": "mistral:MistralModelSettings",
    "openrouter": "openrouter:OpenRouterModelSettings",
    "snowflake": "snowflake:SnowflakeModelSettings",
    "xai": "xai:XaiModelSettings",
    "zai": "zai:ZaiModelSettings",
}
#: Matches the names in ``provider`` and ``extra_headers`` whose values must be references to
#: secrets.
SECRET = re.compile(r"(key|token|secret|password|credential|authorization|cookie)", re.IGNORECASE)
#: Matches arguments of providers' classes that are objects and cannot be written in a file.
OBJECTS = re.compile(r"client$|^credential|^retry_options$|^(args|kwargs|self)$")


def faults_of_settings(settings: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of a flow's key ``settings``, the request settings of its model."""
    from pydantic_ai.settings import ModelSettings

    base = dict(ModelSettings.__annotations__)
    for name, value in settings.items():
        place = ("settings", name)
        if name in OWN:
            yield place, f"Perdure sets it; use {OWN[name]} under Controller"
        elif name == "max_retries":
            yield place, "Perdure does the retries; use max_attempts"
        elif name not in base:
            names = _names_of_provider(name.partition("_")[0])
            if names is not None and name not in names:
                yield (
                    place,
                    (
                        "the model library has no such setting; "
                        f"{suggest(name, sorted({*base, *names}))}"
                    ),
                )
        elif fault := _fault_of(ModelSettings, name, value):
            yield place, fault
    for header, value in (
        (settings.get("extra_headers") or {}).items()
        if isinstance(settings.get("extra_headers"), Mapping)
        else ()
    ):
        if SECRET.search(header) and not is_reference(value):
            yield (
                ("settings", "extra_headers", header),
                "it should be a reference to a variable (env:NAME), never the secret itself",
            )


def faults_of_provider(
    arguments: Mapping[str, Any], model: str | None, base_url: str | None, api_key: str | None
) -> Iterator[Fault]:
    """Yield the faults of a flow's key ``provider``, the arguments of the provider's class.

    Args:
        model, base_url, api_key: The keys of the same names beside ``provider``.
    """
    prefix, colon, _ = (model or "").partition(":")
    if not colon or base_url is not None:
        yield ("provider",), "it requires model: PROVIDER:NAME in the flow, and excludes base_url"
        return
    accepted = arguments_of(prefix)
    for name, value in arguments.items():
        if accepted and name not in accepted:
            yield (
                ("provider", name),
                f"the provider {prefix} takes no such argument; {suggest(name, sorted(accepted))}",
            )
        elif SECRET.search(name) and not is_reference(value):
            yield (
                ("provider", name),
                "it should be a reference to a variable (env:NAME), never the secret itself",
            )
        elif not isinstance(value, str | int | float | bool):
            yield ("provider", name), "it should be text, a number, true or false"
    own_server = any(
        isinstance(value, str) and value.startswith(("http://", "https://"))
        for value in arguments.values()
    )
    if (
        own_server
        and api_key is None
        and prefix != "bedrock"
        and not any(SECRET.search(name) for name in arguments)
    ):
        yield (
            ("provider",),
            (
                "a server configured in the flow gets only a key configured in the flow; "
                "set api_key: env:NAME under Controller"
            ),
        )


def arguments_of(provider: str) -> set[str]:
    """Return the names of a provider class's arguments that a file can express.

    Returns:
        An empty set if the provider is unknown, or its package is not installed.
    """
    import inspect

    from pydantic_ai.providers import infer_provider_class

    try:
        parameters = inspect.signature(infer_provider_class(provider).__init__).parameters
    except (ImportError, ValueError):
        # The package is not installed, or the provider is unknown, which the run will report.
        return set()
    return {name for name in parameters if not OBJECTS.search(name)}


def resolved(value: Any, what: str) -> Any:
    """Return a copy of a configuration in which secrets replace each ``env:NAME``, at any depth.

    Args:
        what: The name of the value, for errors.

    Raises:
        FatalError: A variable is missing or empty.
    """
    if isinstance(value, Mapping):
        return {name: resolved(each, f"{what}.{name}") for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(each, what) for each in value]
    return secret_of(value, what) if is_reference(value) else value


def _names_of_provider(prefix: str) -> list[str] | None:
    """Return the names of one provider's own request settings.

    Returns:
        An empty list if the prefix is unknown. None if the provider's package is not installed.
    """
    if prefix not in CLASSES:
        return []
    from importlib import import_module

    module, _, name = CLASSES[prefix].partition(":")
    try:
        settings_class = getattr(import_module(f"pydantic_ai.models.{module}"), name)
    except ImportError:
        return None
    return list(settings_class.__annotations__)


def _fault_of(owner: Any, name: str, value: Any) -> str | None:
    """Return the reason why the model library does not accept the value of a request setting.

    Args:
        owner: The library's class that declares the setting.

    Returns:
        None if the value is valid or cannot be checked.
    """
    from typing import get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(
            get_type_hints(owner)[name], config=ConfigDict(arbitrary_types_allowed=True)
        )
        adapter.validate_python(value)
    except ValidationError as error:
        return f"the model library does not accept it: {error.errors(include_url=False)[0]['msg']}"
    except (PydanticUserError, NameError):
        return None
    return None
