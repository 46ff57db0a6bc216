"""The options of a command as pydantic models, for configuration and flow files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from perdure.flows.commands.approval import Approval, approval_of, matching
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.retry import Retry


class StrictModel(BaseModel):
    """A frozen model that refuses unknown keys and does not convert values."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RetryConfig(StrictModel):
    """A retry policy as data. See ``perdure.flows.core.retry``.

    Durations are seconds or texts like ``90s``, ``10m``, ``24h``. Errors are names.
    """

    max_attempts: int | None = None
    initial: float | str | None = None
    maximum: float | str | None = None
    multiplier: float | None = None
    jitter: float | None = None
    within: float | str | None = None
    on: list[str] = []
    not_on: list[str] = []

    @field_validator("*")
    @classmethod
    def _is_valid(cls, value: Any, info: ValidationInfo) -> Any:
        # Each setting by itself, so that all faults are reported, each at its line.
        assert info.field_name is not None
        try:
            Retry(**{info.field_name: value})
        except InvalidFlow as error:
            raise ValueError(str(error)) from error
        return value

    def made(self) -> Retry:
        """Create the retry policy that this configuration describes."""
        return Retry(**self.model_dump())


class ApprovalConfig(StrictModel):
    """When a command needs a person's approval. See ``perdure.flows.commands.approval``.

    ``when`` and ``unless`` give patterns for named arguments. With ``when``, a call needs approval
    if any argument matches. With ``unless``, it needs approval unless every named argument matches.
    Without both, each call needs approval.
    """

    when: dict[str, list[str]] | None = None
    unless: dict[str, list[str]] | None = None
    deadline: Annotated[float | None, BeforeValidator(as_seconds)] = Field(
        default=None, gt=0, allow_inf_nan=False
    )
    default: Any = "refuse"

    @model_validator(mode="after")
    def _has_one_rule(self) -> ApprovalConfig:
        if self.when is not None and self.unless is not None:
            raise ValueError("expected when or unless, not both")
        return self

    @field_validator("default")
    @classmethod
    def _is_answer(cls, value: Any) -> Any:
        try:
            approval_of(Approval(default=value))
        except InvalidFlow as error:
            raise ValueError(str(error)) from error
        return value

    def made(self) -> Approval:
        """Create the approval rule of this configuration."""
        rule = (
            matching(self.when)
            if self.when is not None
            else matching(self.unless, True)
            if self.unless is not None
            else None
        )
        return Approval(rule, self.deadline, self.default)


class CommandOptions(StrictModel):
    """The options of one command. A key that is not set leaves the command's own option."""

    description: str | None = None
    approval: Literal["always", "never"] | ApprovalConfig | None = None
    in_doubt: Literal["retry", "ask", "tell_controller"] | None = None
    errors: Literal["observe", "raise"] | None = None
    retry: RetryConfig | None = None
    max_concurrency: int | None = Field(default=None, ge=1)

    @property
    def approved_arguments(self) -> list[str]:
        """The arguments that the approval rule names."""
        rule = self.approval if isinstance(self.approval, ApprovalConfig) else ApprovalConfig()
        return [*(rule.when or {}), *(rule.unless or {})]

    @property
    def said(self) -> dict[str, Any]:
        """The options that are set, as fields of ``CommandSpec`` by name."""
        plain = ("description", "in_doubt", "errors", "max_concurrency")
        options: dict[str, Any] = {
            name: getattr(self, name) for name in plain if getattr(self, name) is not None
        }
        if self.approval is not None:
            options["approval"] = approval_of(
                self.approval.made() if isinstance(self.approval, ApprovalConfig) else self.approval
            )
        if self.retry is not None:
            options["retry"] = self.retry.made()
        return options
