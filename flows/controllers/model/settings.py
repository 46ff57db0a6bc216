"""What a flow says of its model, checked when the flow is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.controllers import InvalidController
from flows.controllers.model.prompts import SYSTEM, USER, check_template
from flows.controllers.model.window import FIRST, LAST, TOKENS
from flows.controllers.model.words import Words
from flows.definition import known
from flows.errors import InvalidFlow
from flows.secrets import check_reference

#: The packages that a model needs, by the names under which they are imported.
PACKAGES = ("pydantic_ai", "openai", "jinja2")
NEEDED = "it needs holdfast[ai], which is not installed here (pip install 'holdfast[ai]')"

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class WindowKeys(BaseModel):
    """See ``window.Window``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    first: Annotated[int, Field(ge=0)] = FIRST
    last: Count = LAST
    tokens: Count = TOKENS


class PriceKeys(BaseModel):
    """What a million tokens cost, in US dollars; ``cached``: of the input, those that the provider read from its cache."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    input: Amount
    output: Amount
    cached: Amount | None = None


class ModelSettings(BaseModel):
    """The settings of the controller ``model``; what is None is left to the worker, or to the provider.

    Attributes:
        model, base_url, api_key: which model, where, and by which key (``env:NAME``); see ``target.target_of``.
        system, user: templates of the first two messages.
        reply: ``tools`` calls commands as tools, ``json`` takes the seed's JSON format, ``auto`` does what the model can.
        words: what becomes of a reply that calls no command, though it could; see ``words.Words``.
        temperature, max_tokens: of each reply.
        timeout_seconds: time for one whole request, its reply included.
        window: how much of the history a request holds.
        refusal: what becomes of a run whose model refuses: ``end`` ends it errored, ``ask`` asks a person.
        price: what tokens cost, where the price list does not know it or is not to be used.
        settings, provider: what the model library takes; see ``library_settings``.
        unpriced: with a budget of money, and no price: ``say`` tells it in the first round's event, ``refuse`` makes no request.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())

    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    api_key: str | None = None
    system: str = SYSTEM
    user: str = USER
    reply: Literal["auto", "tools", "json"] = "auto"
    words: Words = "answer"
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_tokens: Count | None = None
    timeout_seconds: Seconds = 300.0
    window: WindowKeys = WindowKeys()
    refusal: Literal["end", "ask"] = "end"
    price: PriceKeys | None = None
    unpriced: Literal["say", "refuse"] = "say"
    settings: dict[str, Any] | None = None
    provider: dict[str, Any] | None = None


def read_settings(given: Mapping[str, Any]) -> ModelSettings:
    """Check settings; raises InvalidController with a sentence for each that is wrong, none of which shows a key."""
    faults: list[tuple[tuple[str | int, ...], str]] = []
    if given.get("api_key") is not None:
        try:
            check_reference(given["api_key"], "the key")
        except InvalidFlow as error:
            faults.append((("api_key",), str(error)))
    try:
        settings = ModelSettings.model_validate({name: value for name, value in given.items() if value is not None and name != "api_key"})
    except ValidationError as error:
        faults += [(fault["loc"], _told(fault)) for fault in error.errors(include_url=False)]
        raise InvalidController(faults) from None  # pydantic's own text would show what was given
    if missing() is None:
        for name in settings.model_fields_set & {"system", "user"}:  # ours are good, and reading any takes a moment of every command
            try:
                check_template(getattr(settings, name))
            except InvalidFlow as error:
                faults.append(((name,), str(error)))
        faults += _faults_of_library(settings, given.get("api_key"))
    if faults:
        raise InvalidController(faults)
    return settings.model_copy(update={"api_key": given.get("api_key")})


def _faults_of_library(settings: ModelSettings, api_key: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if settings.settings is None and settings.provider is None:
        return
    from flows.controllers.model.library_settings import faults_of_provider, faults_of_settings  # they import the library

    if settings.settings is not None:
        yield from faults_of_settings(settings.settings)
    if settings.provider is not None:
        yield from faults_of_provider(settings.provider, settings.model, settings.base_url, api_key)


def missing() -> str | None:
    """What is not installed here and has to be, in a sentence; None where nothing is missing."""
    return None if all(find_spec(package) for package in PACKAGES) else NEEDED


def _told(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        keys = PriceKeys if fault["loc"][0] == "price" else WindowKeys
        return f"there is no such key; {known(fault['loc'][-1], keys.model_fields)}"
    return str(fault["msg"]).replace("Input should", "it should").replace("String should", "it should").replace("valid string", "text")
