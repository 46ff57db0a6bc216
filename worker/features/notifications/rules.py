"""The setting ``notify``: rules that send events of runs to receivers."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from perdure.flows.core.durations import as_seconds, is_duration
from perdure.flows.core.secrets import is_reference

#: Events that a rule may name. ``ended`` stands for completed, errored and stopped.
Event = Literal["waiting", "in_doubt", "errored", "completed", "stopped", "ended"]
#: Name of a rule: it is part of a key's name in Redis.
RULE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


#: One text or a list of texts.
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
RuleSeconds = Annotated[
    float,
    BeforeValidator(
        lambda value: as_seconds(value) if isinstance(value, str) and is_duration(value) else value
    ),
]


class NotificationRule(BaseModel):
    """One rule: which events of which runs are sent, and to which receiver.

    A rule has one of ``webhook``, ``command`` and ``task``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    #: The events.
    on: Annotated[tuple[Event, ...], BeforeValidator(_listed)] = Field(min_length=1)
    #: Names of flows. ``*`` stands for any characters. Empty: all flows.
    flow: Texts = ()
    #: Labels that the run must have.
    labels: Mapping[str, str] = Field(default_factory=dict)
    #: Names of submitters. Empty: every run, also without a submitter.
    submitter: Texts = ()
    #: URL that gets a signed POST, or ``env:NAME``, a variable of the worker that holds it.
    webhook: str | None = None
    #: References (``env:NAME``) to the secrets that sign a webhook. Each makes a signature, so that
    #: a secret can be replaced without a gap.
    secret: Texts = ()
    #: A program with its arguments. It gets the notification as JSON on its standard input.
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    #: Name of a Celery task. It gets the notification as its first argument.
    task: str | None = Field(default=None, min_length=1)
    #: Queue of the task.
    queue: str | None = Field(default=None, min_length=1)
    #: Id of an access token with the scope ``sign-in`` (``perdure token list``). The links of
    #: notifications then sign in with it, each once.
    sign_in: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$")
    #: Time (seconds) after which a notification that could not be delivered becomes a dead one.
    patience: RuleSeconds = Field(default=86_400.0, gt=0)

    @field_validator("secret")
    @classmethod
    def _references(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(map(is_reference, value)):
            raise ValueError(
                "expected env:NAME, the name of the environment variable that holds the secret; "
                "never the secret itself"
            )
        return value

    @field_validator("webhook")
    @classmethod
    def _a_url(cls, value: str | None) -> str | None:
        if value is not None and not is_reference(value):
            check_webhook_url(value)
        return value

    @model_validator(mode="after")
    def _one_receiver(self) -> NotificationRule:
        receivers = [self.webhook, self.command, self.task]
        if sum(each is not None for each in receivers) != 1:
            raise ValueError("expected one of webhook, command and task")
        if (self.webhook is None) != (not self.secret):
            raise ValueError("a webhook needs a secret (env:NAME), and nothing else has one")
        if self.queue is not None and self.task is None:
            raise ValueError("queue is only for a task")
        return self

    @property
    def events(self) -> frozenset[str]:
        """The events of the rule. ``completed``, ``errored`` and ``stopped`` replace ``ended``."""
        more = {"completed", "errored", "stopped"} if "ended" in self.on else set()
        return frozenset(self.on) - {"ended"} | more

    def matches(self, flow: str, labels: Mapping[str, Any], submitter: str | None) -> bool:
        """Return whether the rule matches a run with this flow, labels and submitter."""
        return (
            (not self.flow or any(fnmatchcase(flow, pattern) for pattern in self.flow))
            and all(labels.get(name) == text for name, text in self.labels.items())
            and (not self.submitter or submitter in self.submitter)
        )


class NotificationSettings(BaseSettings):
    """The settings of notifications."""

    model_config = SettingsConfigDict(defer_build=True)

    #: Which events of which runs workers send, and where to: rules by name.
    notify: Mapping[Annotated[str, Field(pattern=RULE_NAME)], NotificationRule] = Field(
        default={}, repr=False
    )
    #: Whether webhooks may go to addresses that are not public, or are this machine's own.
    private_webhooks: bool = False

    @model_validator(mode="after")
    def _a_link_has_an_address(self) -> Self:
        without = [name for name, rule in self.notify.items() if rule.sign_in is not None]
        if without and getattr(self, "public_url", None) is None:
            raise ValueError(
                f"sign_in of notify.{without[0]} needs public_url, the URL of the dashboard"
            )
        return self


def check_webhook_url(url: str) -> None:
    """Raise ValueError unless this is an HTTP or HTTPS URL without a user and a password.

    The text of the error does not show the URL.
    """
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(char.isspace() or not char.isprintable() for char in url):
        raise ValueError("expected a URL that begins with https:// or http://, or env:NAME")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected a URL without a user and a password")
