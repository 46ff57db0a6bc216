"""What a flow passes to the model library as it stands: ``settings`` of each request, and ``provider`` for the provider's class.

Both are checked when the flow is read, by the library's own definitions. The library is imported only for flows that use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from flows.definition import known
from flows.secrets import is_reference, secret_of

#: A fault: the place below Controller, and a sentence.
Fault = tuple[tuple[str | int, ...], str]
#: Settings that Holdfast sets itself, and the key under Controller that says them.
OWN = {"timeout": "timeout_seconds", "request_timeout": "timeout_seconds", "temperature": "temperature", "max_tokens": "max_tokens"}
#: Classes of the library whose settings begin with these prefixes; each needs its provider's own package.
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
#: Names of what has to be a reference to a secret, in ``provider`` and in ``extra_headers``.
SECRET = re.compile(r"(key|token|secret|password|credential|authorization|cookie)", re.IGNORECASE)
#: Arguments of providers' classes that are objects, which no file can say.
OBJECTS = re.compile(r"client$|^credential|^retry_options$|^(args|kwargs|self)$")


def faults_of_settings(given: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with ``settings``."""
    from pydantic_ai.settings import ModelSettings

    base = dict(ModelSettings.__annotations__)
    for name, value in given.items():
        place = ("settings", name)
        if name in OWN:
            yield place, f"Holdfast sets it; say {OWN[name]} under Controller"
        elif name == "max_retries":
            yield place, "Holdfast tries again itself; say max_attempts"
        elif name not in base:
            names = _names_of_provider(name.partition("_")[0])
            if names is not None and name not in names:
                yield place, f"the model library has no setting of this name; {known(name, sorted({*base, *names}))}"
        elif fault := _fault_of(ModelSettings, name, value):
            yield place, fault
    for header, value in (given.get("extra_headers") or {}).items() if isinstance(given.get("extra_headers"), Mapping) else ():
        if SECRET.search(header) and not is_reference(value):
            yield ("settings", "extra_headers", header), "it should say where the secret is found: env:NAME; never the secret"


def faults_of_provider(given: Mapping[str, Any], model: str | None, base_url: str | None, api_key: str | None) -> Iterator[Fault]:
    """Yield what is wrong with ``provider``."""
    prefix, colon, _ = (model or "").partition(":")
    if not colon or base_url is not None:
        yield ("provider",), "it goes with model: PROVIDER:NAME in the flow, and without base_url"
        return
    taken = arguments_of(prefix)
    for name, value in given.items():
        if taken and name not in taken:
            yield ("provider", name), f"the provider {prefix} takes no argument of this name; {known(name, sorted(taken))}"
        elif SECRET.search(name) and not is_reference(value):
            yield ("provider", name), "it should say where the secret is found: env:NAME; never the secret"
        elif not isinstance(value, str | int | float | bool):
            yield ("provider", name), "it should be text, a number, or true or false"
    own_server = any(isinstance(value, str) and value.startswith(("http://", "https://")) for value in given.values())
    if own_server and api_key is None and prefix != "bedrock" and not any(SECRET.search(name) for name in given):
        yield ("provider",), "a server of the flow's own gets no key that the flow has not named; say api_key: env:NAME under Controller"


def arguments_of(provider: str) -> set[str]:
    """Return what the provider's class takes and a file can say; nothing where the class cannot be looked at here."""
    import inspect

    from pydantic_ai.providers import infer_provider_class

    try:
        taken = inspect.signature(infer_provider_class(provider).__init__).parameters
    except (ImportError, ValueError):  # its package is not installed, or the run will say that it is unknown
        return set()
    return {name for name in taken if not OBJECTS.search(name)}


def resolved(value: Any, what: str) -> Any:
    """Return the value with its references looked up; raises FatalError where one is not there."""
    if isinstance(value, Mapping):
        return {name: resolved(each, f"{what}.{name}") for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(each, what) for each in value]
    return secret_of(value, what) if is_reference(value) else value


def _names_of_provider(prefix: str) -> list[str] | None:
    """Return the settings of a provider; an empty list for no provider, and None where its package is not installed."""
    if prefix not in CLASSES:
        return []
    from importlib import import_module

    module, _, name = CLASSES[prefix].partition(":")
    try:
        found = getattr(import_module(f"pydantic_ai.models.{module}"), name)
    except ImportError:
        return None
    return list(found.__annotations__)


def _fault_of(owner: Any, name: str, value: Any) -> str | None:
    """Return what the library's type says against a value; None if it takes it, or its type says nothing."""
    from typing import get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(owner)[name], config=ConfigDict(arbitrary_types_allowed=True))
        adapter.validate_python(value)
    except ValidationError as error:
        return f"the model library does not take it: {error.errors(include_url=False)[0]['msg']}"
    except (PydanticUserError, NameError):
        return None
    return None
