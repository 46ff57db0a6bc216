"""Choice of the models that a round may ask, in order.

A flow names these models in its setting ``models``. If an earlier model failed, the run stores
which model replied, and asks it first in its next round.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.flows.controllers.model.chat import ModelFailed
from perdure.flows.controllers.model.endpoint import Target, target_of
from perdure.flows.controllers.model.setting_keys import FallbackKeys, ModelKeys, PriceKeys
from perdure.flows.controllers.model.settings import ModelSettings
from perdure.flows.controllers.model.stand_ins import stand_in_for
from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.core.names import suggest
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext

#: The name of the run's value with the model that answered after others had failed.
IN_USE = "_model_in_use"
#: Maximum characters of a model's error beside the errors of other models.
ERROR_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that a round may ask.

    Attributes:
        target: The model, its server and key.
        price: The price of the model's tokens. None for the price list.
    """

    target: Target
    price: PriceKeys | None = None

    @property
    def name(self) -> str:
        """The model's name in the flow, for events and errors."""
        return self.target.model or "the first model of the server"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request: its model and its error."""

    candidate: Candidate
    failed: ModelFailed

    def __str__(self) -> str:
        return safe_text(str(self.failed.error), ERROR_LENGTH)


def candidates_of(settings: ModelSettings, context: RoundContext) -> list[Candidate]:
    """Return the models for a round, in order.

    First comes the submission's choice, then the flow's models in their order. But if the run has
    stored which model replied (``IN_USE``), the order begins with that model, and those before it
    come last.

    Raises:
        FatalError: No model is configured, or the flow does not allow the submission's choice.
    """
    keys = list(settings.models or ()) or [
        ModelKeys(
            model=settings.model,
            base_url=settings.base_url,
            api_key=settings.api_key,
            provider=settings.provider,
            price=settings.price,
        )
    ]
    if context.model is not None:
        chosen = _chosen(settings, context.model)
        keys = [chosen, *(each for each in keys if each.model != chosen.model)]
    candidates = [_candidate(each, settings, context) for each in keys]
    in_use = context.committed.get(IN_USE)
    places = (place for place, each in enumerate(candidates) if each.target.limits == in_use)
    place = next(places, 0)
    return [*candidates[place:], *candidates[:place]]


def _chosen(settings: ModelSettings, name: str) -> ModelKeys:
    allowed = {each.model: each for each in settings.allowed_models or ()}
    if name not in allowed:
        known = [each for each in allowed if each]
        raise FatalError(
            f"the run was submitted with the model {name!r}, which its flow does not allow "
            f"(allowed_models); {suggest(name, known) if known else 'it allows no choice'}"
        )
    return allowed[name]


def _candidate(keys: ModelKeys, settings: ModelSettings, context: RoundContext) -> Candidate:
    """Return the candidate for one of the flow's models, with its server, key and price."""
    price = keys.price or settings.price
    if (name := stand_in_for(keys.model or context.endpoint.model)) is not None:
        return Candidate(Target(name), price)
    if keys.provider is not None:  # it requires a model, and uses only its own key
        return Candidate(Target(keys.model, None, keys.api_key, provider=keys.provider), price)
    target = target_of(keys.model, keys.base_url, keys.api_key, context.endpoint)
    return Candidate(target, price)


def goes_on(failure: Failure, fallback: FallbackKeys, context: RoundContext) -> bool:
    """Return whether a failure leads to the next model.

    The flow's ``fallback`` decides this for each kind of failure. A time-out or a broken reply
    leads to the next model only if the step has no retry left. For a busy or unreachable provider,
    the time of the step's first failure is recorded, and ``busy_seconds`` counts from it.
    """
    failed = failure.failed
    match failed.kind:
        case "busy":
            is_last = _counts(failed.error) and not context.may_retry(failed.error)
            return (is_last and fallback.incomplete) or _is_patience_over(
                failure, fallback.busy_seconds, context
            )
        case "incomplete":
            return fallback.incomplete and not context.may_retry(failed.error)
        case "gone":
            return fallback.gone
        case "rejected":
            return fallback.rejected
        case "refused":
            return fallback.refused
        case _:
            return False


def _counts(error: Exception) -> bool:
    """Return whether the error of a busy provider counts as an attempt of the round.

    Only an error of a fake model does.
    """
    return isinstance(error, RetryableError) and error.counts


def _is_patience_over(failure: Failure, seconds: float | None, context: RoundContext) -> bool:
    """Return whether a provider has been busy in this step for longer than a limit.

    The wait that the provider requests now is counted, too.

    Args:
        seconds: The limit. None: there is no limit, so the result is False. 0: the result is True.
    """
    if seconds is None:
        return False
    if seconds == 0:
        return True
    own = hashlib.sha256(failure.candidate.target.limits.encode()).hexdigest()[:12]
    since: float = context.once(f"model.busy.{own}", time.time)
    error = failure.failed.error
    wait = error.retry_after if isinstance(error, RetryableError) else None
    return time.time() + (wait or 0.0) >= since + seconds


def error_of(failures: Sequence[Failure]) -> Exception:
    """Return a round's error after all models failed.

    If a model may reply later, the error is retryable, so that the round waits for that model.

    Args:
        failures: The failures, at least one.
    """
    errors = [failure.failed.error for failure in failures]
    if len(errors) == 1:
        return errors[0]
    later = [error for error in errors if isinstance(error, RetryableError)]
    error = next((each for each in later if not each.counts), next(iter(later), errors[-1]))
    others = "; ".join(str(each) for each in failures if each.failed.error is not error)
    text = f"{error} (the other models: {others})"
    if isinstance(error, RetryableError):
        return RetryableError(text, error.retry_after, error.counts)
    return FatalError(text) if isinstance(error, FatalError) else error
