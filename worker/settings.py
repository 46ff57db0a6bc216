"""Settings: defaults here, then ``config/worker.toml``, then ``HOLDFAST_*`` variables, then what the caller passes."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_serializer, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from flows.durations import as_seconds, is_duration
from flows.secrets import is_reference
from worker.errors import InvalidSettings
from worker.logs import LogFormat
from worker.places import place_of

#: Where a project keeps its settings, looked for in the working directory.
TOML = Path("config") / "worker.toml"
PREFIX = "HOLDFAST_"
#: The settings that may hold a password.
URLS = ("redis_url", "broker_url", "model_url")
#: Those that are told to nobody, in case somebody wrote the secret where its name belongs.
UNTOLD = ("model_key",)
#: ``strict``: only on a server that keeps what it acknowledged. ``relaxed``: on any, and runs may be lost.
Durability = Literal["strict", "relaxed"]
Names = Annotated[tuple[str, ...], NoDecode]
#: A number, or a text like ``10m``; what is neither is pydantic's to refuse.
Seconds = Annotated[float, BeforeValidator(lambda given: as_seconds(given) if isinstance(given, str) and is_duration(given) else given)]


class Settings(BaseSettings):
    """Everything that can be set. Durations are in seconds, or texts like ``90s`` and ``10m``; sizes in bytes.

    A URL may hold a password: it is told as it is to who asks for it by name, and without the password wherever settings are shown.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True)

    #: State server; redis://, rediss://, unix:// or redis+sentinel://. None: see ``worker.discovery`` for where it is looked for.
    redis_url: str | None = None
    #: Celery's broker (amqp:// or another Redis); None for the state server, where state and message are one write.
    broker_url: str | None = None
    #: In front of every key and queue name; deployments with different prefixes can share a server.
    prefix: str = Field(default="holdfast", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    #: Modules that register flows.
    flow_modules: Names = ()
    #: The directory that commands may read and write (``read_file``, ``run_shell``, ...); None for none.
    workspace: str | None = None
    #: Flows that run shell commands of the submitter and that this worker is willing to play.
    enabled_flows: Names = ()

    #: The model that flows ask which name none: ``provider:name``, or a name that the server of ``model_url`` knows.
    model: str | None = Field(default=None, min_length=1, max_length=300)
    #: Base URL of a server that speaks OpenAI's protocol; without ``model``, the first model that it has is asked.
    model_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    #: Where the key is found: ``env:NAME``. None: the provider's own variable; for ``model_url``, OPENAI_API_KEY where it is set.
    model_key: str | None = None

    #: How long a worker may be silent before its rounds go to others; four heartbeats.
    lease_seconds: Seconds = Field(default=4.0, gt=0)
    heartbeat_seconds: Seconds = Field(default=1.0, gt=0)
    sweep_seconds: Seconds = Field(default=0.5, gt=0)
    #: How long a message may be on its way before it is looked for.
    resend_seconds: Seconds = Field(default=2.0, gt=0)
    #: Tries of a failing round, the first included.
    max_attempts: int = Field(default=3, ge=1)
    #: Workers that may be lost under one step.
    max_losses: int = Field(default=10, ge=0)
    #: First wait before a failed round is tried again; doubles, with jitter, up to the maximum.
    retry_delay_seconds: Seconds = Field(default=1.0, ge=0)
    retry_delay_max_seconds: Seconds = Field(default=60.0, ge=0)
    #: How long a round waits for a provider that is busy or away, from the first time; no failure is counted meanwhile.
    patience_seconds: Seconds = Field(default=86_400.0, ge=0)
    #: Time limit of one round; None for none. A flow may set its own.
    round_timeout_seconds: Seconds | None = Field(default=None, gt=0)
    #: Rounds that one worker process plays at once. They mostly wait (for models, tools, tests), so more than the cores.
    concurrency: int = Field(default=16, ge=1)

    #: Whether the commit of a round brings the worker's next message, claimed, or lets the run go on here for a tenth of a second (threads
    #: and solo, where runs and messages share a database).
    fetch: bool = True

    #: Whether a server that would lose runs (no append-only file, or an evicting maxmemory-policy) is refused or accepted.
    durability: Durability = "strict"

    #: Replicas that must have a submit, stop, resume, retry or delete before it is acknowledged; see docs/sentinel.md.
    wait_replicas: int = Field(default=0, ge=0)
    #: How long a client waits for them; less than the 5 seconds after which it would give the connection up.
    wait_timeout_seconds: Seconds = Field(default=1.0, gt=0, le=4)

    #: Whether a worker sends Celery's events, of itself and of each round, for Flower to show.
    task_events: bool = False
    #: How a worker logs: text for people, or json, one object a line with run, step and attempt.
    log_format: LogFormat = "text"

    max_goal_bytes: int = Field(default=64 * 1024, ge=1)
    max_addition_bytes: int = Field(default=256 * 1024, ge=1)
    max_state_bytes: int = Field(default=1024 * 1024, ge=1)
    #: Days that a completed or errored run is kept.
    retention: float = Field(default=30.0, ge=0.001)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown(value) if name in URLS else value

    @field_serializer(*URLS, when_used="json")
    def _without_passwords(self, value: str | None) -> str | None:
        return shown(value)

    @field_validator("flow_modules", "enabled_flows", mode="before")
    @classmethod
    def _comma_separated(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("model_key")
    @classmethod
    def _a_reference(cls, value: str | None) -> str | None:
        if value is not None and not is_reference(value):
            raise ValueError("expected env:NAME, the name of the environment variable that holds the key; never the key itself")
        return value

    @model_validator(mode="after")
    def _a_lease_outlives_a_missed_beat(self) -> Settings:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"lease_seconds ({self.lease_seconds:g}) should be at least twice heartbeat_seconds ({self.heartbeat_seconds:g}): "
                "one late heartbeat would give a live worker's rounds away"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings)


def shown(urls: str | None) -> str | None:
    """A setting of ``URLS`` (Celery takes several, separated by semicolons) as people may see it."""
    return None if urls is None else ";".join(map(place_of, urls.split(";")))


def load_settings(**overrides: Any) -> Settings:
    """The settings in force: ``overrides`` over the environment over ``config/worker.toml`` over the defaults.

    Raises:
        InvalidSettings: an unknown key (the nearest known one is named), or a value that is out of range.
    """
    known = list(Settings.model_fields)
    from_file = _toml(TOML)
    for name, origin in [*((key, str(TOML)) for key in from_file), *((key, "the environment") for key in _from_environment())]:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known)}"
            raise InvalidSettings(f"unknown setting {name!r} in {origin}; {hint}")
    from_file = {key: value for key, value in from_file.items() if PREFIX + key.upper() not in os.environ}
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        return Settings(**{**from_file, **given})
    except ValidationError as error:
        faults = "; ".join(_told(fault) for fault in error.errors())
        raise InvalidSettings(f"these settings cannot be used: {faults}") from error


def _told(fault: Any) -> str:
    """One fault of the settings; what was given is shown only where it cannot hold a password."""
    name = ".".join(map(str, fault["loc"]))
    given = "" if not name or name in (*URLS, *UNTOLD) else f", got {fault['input']!r}"
    return f"{name or 'together'}: {fault['msg']}{given}"


#: Read by others than Settings, from the environment: by tests and tools, and by commands that talk to a control room.
OTHER_VARIABLES = {"debug", "server_url", "test_url", "token"}


def _from_environment() -> list[str]:
    names = (key.removeprefix(PREFIX).lower() for key in os.environ if key.startswith(PREFIX))
    return [name for name in names if name not in OTHER_VARIABLES]


def _toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path} is not readable as TOML: {error}") from error


@cache
def current() -> Settings:
    """The settings of this process, read once."""
    return load_settings()
