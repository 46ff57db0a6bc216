"""Settings: defaults here, then ``config/worker.toml``, ``PERDURE_*`` variables, then arguments.

Each source overrides those before it.
"""

from __future__ import annotations

import difflib
import logging
import os
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from perdure.flows.core.durations import as_seconds, is_duration
from perdure.flows.core.secrets import is_reference
from perdure.worker.errors import InvalidSettings
from perdure.worker.features.settings import FeatureSettings
from perdure.worker.http_urls import check_link
from perdure.worker.logs import LogFormat
from perdure.worker.urls import place_of

logger = logging.getLogger("perdure.settings")

#: Settings file of a project, relative to the working directory.
TOML = Path("config") / "worker.toml"
PREFIX = "PERDURE_"
#: Settings that may contain a password.
URLS = ("redis_url", "broker_url", "model_url")
#: ``strict`` accepts only a server that keeps acknowledged writes. ``relaxed`` accepts any server,
#: and runs may be lost.
Durability = Literal["strict", "relaxed"]
Names = Annotated[tuple[str, ...], NoDecode]
#: A number, or a text like ``10m``. Pydantic rejects any other value.
Seconds = Annotated[
    float,
    BeforeValidator(
        lambda value: as_seconds(value) if isinstance(value, str) and is_duration(value) else value
    ),
]


class KernelSettings(BaseSettings):
    """The settings of Perdure without those of its features (``worker/features``)."""

    # Only ``Settings`` is built: each schema takes milliseconds of the start of a command.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        defer_build=True,
    )

    #: URL of the state server: redis://, rediss://, unix:// or redis+sentinel://. If None, it is
    #: the server of ``perdure up``, else the one on localhost.
    redis_url: str | None = None
    #: URL of Celery's broker (amqp:// or another Redis). If None, the state server is the broker,
    #: so that state and message are one write.
    broker_url: str | None = None
    #: Prefix of every key and queue name. Deployments with different prefixes can share a server.
    prefix: str = Field(default="perdure", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    #: Modules to import, which register flows.
    flow_modules: Names = ()
    #: Directory that commands may read and write (``read_file``, ``run_shell``, ...). None if they
    #: have no directory.
    workspace: str | None = None
    #: Container in which ``run_shell`` runs, if the flow names none: ``docker:IMAGE`` or
    #: ``podman:IMAGE``. None runs it on this machine.
    sandbox: str | None = Field(default=None, pattern=r"^(docker|podman):[A-Za-z0-9]")
    #: Flows that run shell commands of the submitter and that this worker agrees to run.
    enabled_flows: Names = ()

    #: Model for flows that name none: ``provider:name``, or a name that the server at ``model_url``
    #: knows.
    model: str | None = Field(default=None, min_length=1, max_length=300)
    #: Base URL of a server that speaks OpenAI's protocol. Without ``model``, its first model is
    #: used.
    model_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    #: Reference to the model's key: ``env:NAME``. If None, the provider's own variable; with
    #: ``model_url``, OPENAI_API_KEY if it is set.
    model_key: str | None = Field(default=None, repr=False)

    #: Seconds without a heartbeat after which other workers may take a worker's rounds. The default
    #: is four heartbeats.
    lease_seconds: Seconds = Field(default=4.0, gt=0)
    heartbeat_seconds: Seconds = Field(default=1.0, gt=0)
    sweep_seconds: Seconds = Field(default=0.5, gt=0)
    #: Seconds after which the sweep checks whether a queued run's message was lost.
    resend_seconds: Seconds = Field(default=2.0, gt=0)
    #: Attempts of a failing round, including the first.
    max_attempts: int = Field(default=3, ge=1)
    #: Workers that may be lost during one step before its run ends errored.
    max_losses: int = Field(default=10, ge=0)
    #: Wait after the first failure of a round. It doubles with each failure, with jitter, up to the
    #: maximum.
    retry_delay_seconds: Seconds = Field(default=1.0, ge=0)
    retry_delay_max_seconds: Seconds = Field(default=60.0, ge=0)
    #: How long a round waits in total for a provider that is busy or away. These waits do not count
    #: as failures.
    patience_seconds: Seconds = Field(default=86_400.0, ge=0)
    #: Name of the code that a worker runs: an image tag or a git hash, say. None: a digest of the
    #: source files of its flows. Two workers with the same name have the same code.
    build: str | None = Field(default=None, pattern=r"^[!-~]{1,100}$")
    #: How long a run waits for a worker whose code fits it, after its code was changed. Then it
    #: ends errored.
    misfit_seconds: Seconds = Field(default=86_400.0, ge=0)
    #: Time limit of one round. None if it has none. A flow may set its own.
    round_timeout_seconds: Seconds | None = Field(default=None, gt=0)
    #: Rounds that one worker process runs concurrently. They mostly wait (for models, tools,
    #: tests), so there may be more rounds than cores.
    concurrency: int = Field(default=16, ge=1)

    #: Whether a round's commit also claims and returns the worker's next message, or lets the run
    #: continue here for a tenth of a second. Applies to the pools threads and solo, if runs and
    #: messages share a database.
    fetch: bool = True

    #: Whether to refuse a server that could lose runs (no append-only file, or an evicting
    #: maxmemory-policy).
    durability: Durability = "strict"

    #: Replicas that must have a submit, stop, resume, retry or delete before it is acknowledged.
    #: See docs/operations/sentinel.md.
    wait_replicas: int = Field(default=0, ge=0)
    #: How long a client waits for the replicas. At most 4, because a client gives up its connection
    #: after 5 seconds.
    wait_timeout_seconds: Seconds = Field(default=1.0, gt=0, le=4)

    #: Whether a worker sends Celery's events for itself and each round, so that Flower can show
    #: them.
    task_events: bool = False
    #: Log format of a worker: text for people, or json with one object per line that has run, step
    #: and attempt.
    log_format: LogFormat = "text"
    #: Whether spans contain the content of rounds: prompts, replies, arguments, results.
    trace_content: bool = False

    max_goal_bytes: int = Field(default=64 * 1024, ge=1)
    max_addition_bytes: int = Field(default=256 * 1024, ge=1)
    #: Bytes of named values that one round writes into its event. Larger ones are left out: empty
    #: rounds that record 10,000 bytes each are 15 % slower, and the event is kept with the run.
    max_record_bytes: int = Field(default=1024, ge=0)
    max_state_bytes: int = Field(default=1024 * 1024, ge=1)
    #: How many child runs one wait may start, and how deep children of children may go.
    max_children: int = Field(default=10_000, ge=1)
    max_depth: int = Field(default=8, ge=1)
    max_tree: int = Field(default=100_000, ge=1)
    #: URL at which other services reach the HTTP server. The addresses of hooks begin with it.
    public_url: str | None = None
    #: Addresses to which a run's page links: its logs, and its trace. ``{run_id}`` and
    #: ``{trace_id}`` stand for the run's.
    log_url: str | None = None
    trace_url: str | None = None
    #: Days for which a completed or errored run is stored.
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
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("model_key")
    @classmethod
    def _a_reference(cls, value: str | None) -> str | None:
        if value is not None and not is_reference(value):
            raise ValueError(
                "expected env:NAME, the name of the environment variable that holds the key; "
                "never the key itself"
            )
        return value

    @field_validator("log_url", "trace_url")
    @classmethod
    def _a_link(cls, value: str | None) -> str | None:
        if value is not None:
            check_link(value)
        return value

    @model_validator(mode="after")
    def _a_lease_outlives_a_missed_beat(self) -> Self:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"lease_seconds ({self.lease_seconds:g}) should be at least twice "
                f"heartbeat_seconds ({self.heartbeat_seconds:g}): otherwise a live worker loses "
                "its rounds after one late heartbeat"
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
        """Return the sources that pydantic reads: the arguments, then the environment.

        An argument takes precedence over the environment. Other sources, such as ``.env`` files,
        are not read.
        """
        return (init_settings, env_settings)


class Settings(FeatureSettings, KernelSettings):
    """All settings of Perdure.

    Durations are in seconds, or texts like ``90s`` and ``10m``. Sizes are in bytes.

    A URL may hold a password. The attribute returns the full URL, but wherever settings are shown
    the password is left out.
    """

    model_config = SettingsConfigDict(defer_build=False)


def shown(urls: str | None) -> str | None:
    """Return a server URL without user, password and other secrets, so that it can be shown.

    Args:
        urls: One URL, or several URLs with semicolons between them, as Celery accepts them. None is
            returned as None.
    """
    return None if urls is None else ";".join(map(place_of, urls.split(";")))


def load_settings(**overrides: Any) -> Settings:
    """Load the settings of Perdure from all sources.

    The sources in rising order of precedence: defaults, ``config/worker.toml``, environment,
    ``overrides``. An override of None counts as not passed. A ``config/worker.toml`` of another
    program is ignored, with a warning.

    Raises:
        InvalidSettings: A key is unknown (the message suggests the nearest setting), a value is
            invalid, or the file is not TOML.
    """
    setting_names = list(Settings.model_fields)
    from_file = _own(_toml(TOML), setting_names)
    for name, origin in [
        *((key, str(TOML)) for key in from_file),
        *((key, "the environment") for key in _from_environment()),
    ]:
        if name not in setting_names:
            near = difflib.get_close_matches(name, setting_names, n=1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"known settings: {', '.join(setting_names)}"
            )
            other = (
                ". If the file belongs to another program, work in another directory"
                if origin == str(TOML) and not near
                else ""
            )
            raise InvalidSettings(f"unknown setting {name!r} in {origin}; {hint}{other}")
    from_file = {
        key: value for key, value in from_file.items() if PREFIX + key.upper() not in os.environ
    }
    passed = {key: value for key, value in overrides.items() if value is not None}
    try:
        return Settings(**{**from_file, **passed})
    except SettingsError as error:
        raise InvalidSettings(
            f"a setting in the environment is not the JSON that it should be: {error}"
        ) from error
    except ValidationError as error:
        faults = "; ".join(_describe_fault(fault) for fault in error.errors())
        raise InvalidSettings(f"these settings cannot be used: {faults}") from error


#: Minimum likeness (0 to 1) at which an unknown key counts as a misspelled setting.
LIKE = 0.8


def _own(from_file: dict[str, Any], setting_names: list[str]) -> dict[str, Any]:
    """Return ``from_file``, or an empty dict if the file belongs to another program.

    ``from_file`` has the keys and values of ``config/worker.toml``. The file belongs to another
    program if none of its keys is similar to the name of a setting. A warning then says that the
    file is ignored.
    """
    if not from_file or any(
        difflib.get_close_matches(key, setting_names, n=1, cutoff=LIKE) for key in from_file
    ):
        return from_file
    logger.warning(
        "%s is ignored: none of its keys (%s) is a setting of Perdure, so it is taken for the "
        "file of another program",
        TOML,
        ", ".join(from_file),
    )
    return {}


def _describe_fault(fault: Any) -> str:
    """Return the text about one error (``fault``) that pydantic found in the settings.

    The text shows the invalid value only if the setting cannot contain a password.
    """
    name = ".".join(map(str, fault["loc"]))
    setting = name.partition(".")[0]
    # Without `repr` because users may write the secret itself instead of its name.
    fields = Settings.model_fields
    is_shown = setting in fields and setting not in URLS and fields[setting].repr
    received = f", got {fault['input']!r}" if is_shown else ""
    return f"{name or 'together'}: {fault['msg']}{received}"


#: Variables with the prefix that are no settings. Tests, tools and commands that talk to an HTTP
#: server read them.
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
    """Return the settings of this process. Only the first call loads them (``load_settings``)."""
    return load_settings()


def with_server(settings: Settings) -> Settings:
    """Return the settings with the URL of the server that ``perdure up`` runs.

    Settings that name a state server are returned unchanged. If no server of ``perdure up`` runs,
    ``redis_url`` stays None, which stands for localhost. If one runs, ``redis_url`` is its URL, and
    ``broker_url`` is None, so that this server is the broker too.
    """
    if settings.redis_url is not None:
        return settings
    from perdure.worker.embedded import EmbeddedServer

    running = EmbeddedServer.running()
    # A configured broker belongs to another server: the worker of `up` consumes from its own
    # server.
    return (
        settings
        if running is None
        else settings.model_copy(update={"redis_url": running, "broker_url": None})
    )
