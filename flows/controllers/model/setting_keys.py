"""The keys within the model's settings window, price, notes, models and fallback."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from perdure.flows.commands.notes import NoteTool
from perdure.flows.controllers.model.history_window import FIRST, LAST, TOKENS
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.rounds.notes import check_namespace

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ModelName = Annotated[str, Field(min_length=1, max_length=300)]
ServerUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class WindowKeys(BaseModel):
    """The key ``window``; see ``history_window.Window``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    first: Annotated[int, Field(ge=0)] = FIRST
    last: Count = LAST
    tokens: Count = TOKENS


class PriceKeys(BaseModel):
    """The price of a million tokens in US dollars.

    Attributes:
        cached: The price of input that the provider read from its cache. None for the price of
            input.
        cache_write: The price of input that the provider wrote to its cache. None for the price of
            input.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    input: Amount
    output: Amount
    cached: Amount | None = None
    cache_write: Amount | None = None


class ModelKeys(BaseModel):
    """One entry of ``models`` or ``allowed_models``.

    The attributes are the same as in ``ModelSettings``.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())

    model: ModelName | None = None
    base_url: ServerUrl | None = None
    api_key: str | None = None
    provider: dict[str, Any] | None = None
    price: PriceKeys | None = None


def _as_keys(entry: Any) -> Any:
    return {"model": entry} if isinstance(entry, str) else entry


#: Several models, each a name or the keys of one.
Models = Annotated[list[Annotated[ModelKeys, BeforeValidator(_as_keys)]], Field(min_length=1)]


class NoteKeys(BaseModel):
    """The key ``notes``: the notes of earlier runs.

    Attributes:
        namespace: The owner of the notes: a name with facts of the run in braces. The model cannot
            choose it.
        shown: How many notes the prompt shows.
        commands: The commands for notes that the model can call.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    namespace: str
    shown: Annotated[int, Field(ge=0, le=100)] = 20
    commands: list[NoteTool] = ["remember", "recall", "forget"]

    @field_validator("namespace")
    @classmethod
    def _is_valid(cls, value: str) -> str:
        try:
            check_namespace(value)
        except InvalidFlow as error:
            raise ValueError(str(error)) from error
        return value


def _as_note_keys(value: Any) -> Any:
    return {"namespace": value} if isinstance(value, str) else value


#: Notes, by their namespace or by all keys.
NotesOfModel = Annotated[NoteKeys, BeforeValidator(_as_note_keys)]


class FallbackKeys(BaseModel):
    """The key ``fallback``: the failures after which a round asks its next model.

    Attributes:
        busy_seconds: Seconds for which a provider may be busy or unreachable (429, 5xx, no
            connection) before the next model is asked. None: the next model is not asked, and the
            round waits for the provider.
        incomplete: Whether the next model is asked if the reply of the last attempt broke off or
            took too long.
        gone: Whether the next model is asked if a model cannot be used. It is unknown, its key is
            missing or rejected, or its quota is exhausted.
        rejected: Whether the next model is asked if the provider rejects the request (400, 413,
            422, too long for the model).
        refused: Whether the next model is asked if a model refuses to reply.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    busy_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 60.0
    incomplete: bool = True
    gone: bool = True
    rejected: bool = False
    refused: bool = False
