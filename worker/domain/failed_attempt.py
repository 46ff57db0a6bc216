"""The settlement of a failed attempt: a retry, or the end of the run.

The functions are pure. They combine the retry policies of the flow, the submission and the
settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from perdure.flows.core.durations import duration
from perdure.flows.core.errors import (
    CodeDoesNotFit,
    FatalError,
    InvalidFlow,
    RetryableError,
    described,
    remedy_of,
    text_of,
)
from perdure.flows.core.retry import Retry, tightening
from perdure.flows.core.summaries import ended
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.record import BUILD, FAILING, MISFIT, Record
from perdure.worker.domain.remedy import REMEDY
from perdure.worker.domain.settlement import LONGEST, Settlement, milliseconds
from perdure.worker.errors import type_of
from perdure.worker.settings import Settings

#: First and longest wait (s) for a busy or unavailable provider that names no time itself.
BUSY_WAITS = (1.0, 60.0)

#: Value of the field ``waiting_for`` of a run that waits for a worker whose code fits it.
CODE = "code"
#: Maximum length of a stored error text. Longer ones are cut, because the text goes into the hash,
#: the events and every read of the run.
ERROR_LENGTH = 4000


def failure(
    record: Record,
    error: BaseException,
    settings: Settings,
    jitter: float,
    retry: Retry | None = None,
    bounds: Retry | None = None,
    hide: Callable[[str], str] = str,
) -> Settlement:
    """Return the settlement of a failed round.

    The round is retried after a wait, or the run ends. The run ends at once (option ``fatal``) if
    ``error`` is a FatalError or InvalidFlow, or if the policy does not retry it. The commit ends
    the run if attempts or time are used up.

    Args:
        error: The error of the round. A RetryableError may name the wait itself.
        jitter: Random number in [0, 1).
        retry: The flow's policy for this round, or None. The settings supply its missing parts.
        bounds: The submission's policy, which can only tighten that of the flow. None: no bounds.
        hide: Removes secrets from a text.
    """
    error_text = hide(_text_of(record, error))
    busy = isinstance(error, RetryableError) and not error.counts
    policy = _policy(retry, settings, busy).tightened(bounds)
    options: dict[str, str | int] = {
        "error": _sound(error_text),
        "max_failures": policy.max_attempts or settings.max_attempts,
    }
    if isinstance(error, CodeDoesNotFit):
        options["error"] = _sound(f"{ended(error_text)} Then: perdure retry {record.id}")
    if isinstance(error, FatalError | InvalidFlow) or not policy.retries(error):
        remedy = remedy_of(error)
        fields = {} if remedy == "retry" else {REMEDY: f"{record.epoch} {remedy}"}
        return Settlement(
            "failed", fields, options={**options, "fatal": 1, "delay": 0}, cause=type_of(error)
        )
    failure_count = (_waits(record) if busy else int(record.fields.get("failures", "0"))) + 1
    initial, maximum = cast(float, policy.initial), cast(float, policy.maximum)
    wait = backoff(
        failure_count,
        initial,
        maximum,
        jitter,
        policy.multiplier or 2.0,
        0.5 if policy.jitter is None else policy.jitter,
    )
    if (
        isinstance(error, RetryableError)
        and error.retry_after is not None
        and math.isfinite(error.retry_after)
    ):
        wait = min(max(error.retry_after, 0.0), LONGEST)
    if policy.patience is not None:
        spent = f"{error_text}. It was tried for {duration(policy.patience)} (within)"
        options |= {"within": milliseconds(policy.patience), "spent": _sound(spent)}
    if busy:
        options["uncounted"] = 1
    return Settlement(
        "failed", options={**options, "delay": milliseconds(wait)}, cause=type_of(error)
    )


def wait_for_code(
    record: Record,
    error: CodeDoesNotFit,
    settings: Settings,
    jitter: float,
    hide: Callable[[str], str] = str,
) -> Settlement:
    """Return the settlement of a round whose run does not fit this worker's code.

    The round is tried again after a wait, and no attempt is counted. If no worker's code fits
    within the setting ``misfit_seconds``, the run ends errored.

    Args:
        jitter: Random number in [0, 1).
        hide: Removes secrets from a text.
    """
    error_text = hide(_text_of(record, error))
    first, longest = BUSY_WAITS
    wait = backoff(_waits(record, MISFIT) + 1, first, longest, jitter)
    patience = settings.misfit_seconds
    return Settlement(
        "failed",
        options={
            "error": _sound(error_text),
            "reason": CODE,
            "delay": milliseconds(wait),
            "max_failures": settings.max_attempts,
            "uncounted": 1,
            "within": milliseconds(patience),
            "spent": _sound(
                f"{ended(error_text)} The run has waited {duration(patience)} (misfit_seconds) "
                f"for a worker whose code fits. Once there is such a worker: "
                f"perdure retry {record.id}"
            ),
        },
        cause=type_of(error),
    )


def is_of_this_code(record: Record, error: CodeDoesNotFit, build: str) -> bool:
    """Return whether this worker's code has made the run's commits.

    Then it is useless to wait for a worker with other code.

    Args:
        error: The misfit. The result is False if it says that other code made the run.
        build: The build of the run's flow in this worker. Empty if it is unknown.
    """
    if error.is_of_other_code:
        return False
    if BUILD in record.fields:
        return record.fields[BUILD] == build
    return not build or record.step == 0


def _text_of(record: Record, error: BaseException) -> str:
    """Return the error's text. It begins with the run, the step and the node.

    A text that already begins with this run and step is returned unchanged.
    """
    text = (
        text_of(error)
        if isinstance(error, FatalError | InvalidFlow | RetryableError)
        else described(error)
    )
    where = f"run {record.id}, step {record.step}"
    return text if text.startswith(where) else f"{where}, node {record.node}: {text}"


def may_retry(
    record: Record, settings: Settings, flow: Flow, error: BaseException, own: Retry | None = None
) -> bool:
    """Return whether a round that fails with this error is retried.

    Time limits of the retry policies (``within``) are ignored here. The commit checks them.

    Args:
        own: The policy of the workflow step that failed. It takes the place of the node's policy,
            and the flow's policy supplies its missing parts. None: the node's policy.
    """
    retry, bounds = flow.retry_of(record.node, record.values), record.json("retry", None)
    if own is not None:
        retry = own if flow.retry is None else own.over(flow.retry)
    options = failure(record, error, settings, 0.0, retry, tightening(bounds)).options
    if "fatal" in options:
        return False
    failures = int(record.fields.get("failures", "0")) + 1
    return "uncounted" in options or failures < int(options["max_failures"])


def _policy(retry: Retry | None, settings: Settings, busy: bool) -> Retry:
    """Return ``retry`` with its missing parts from the settings.

    Args:
        busy: Whether the round waits for a busy provider. The defaults of these waits differ from
            those of the waits after failures.
    """
    if busy:
        default = Retry(settings.max_attempts, *BUSY_WAITS, within=settings.patience_seconds)
    else:
        default = Retry(
            settings.max_attempts, settings.retry_delay_seconds, settings.retry_delay_max_seconds
        )
    return default if retry is None else retry.over(default)


def _waits(record: Record, field: str = FAILING) -> int:
    """Return how many times in a row this step has waited. 0 if it has not.

    Args:
        field: ``FAILING`` counts waits for the model provider, ``MISFIT`` waits for code that fits.
    """
    epoch, step, _, waits = (record.fields.get(field, "").split(" ") + [""] * 4)[:4]
    return (
        int(waits)
        if (epoch, step) == (str(record.epoch), str(record.step)) and waits.isdecimal()
        else 0
    )


def quarantine(error: Exception) -> Settlement:
    """Return the settlement that ends and quarantines a damaged run. ``error`` is the damage."""
    return Settlement("damaged", options={"error": _sound(str(error))}, cause=type_of(error))


def backoff(
    failures: int,
    first: float,
    longest: float,
    jitter: float,
    multiplier: float = 2.0,
    by_chance: float = 0.5,
) -> float:
    """Return the wait before the next attempt, in seconds.

    The wait grows exponentially with each failure in a row, and a part of it is random.

    Args:
        failures: Number of failures in a row: 1 after the first failure.
        first: Wait after the first failure, before jitter.
        longest: Upper limit of any wait.
        jitter: Random number in [0, 1), passed in by the caller.
        multiplier: Factor between one wait and the next.
        by_chance: Share of the wait that is random, from 0 to 1.

    Source: "equal jitter", M. Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
    """
    # The exponent is capped: 1000 ** 103 overflows a float, and growing waits reach the longest
    # long before.
    full = min(longest, first * multiplier ** min(failures - 1, 60))
    return full * (1 - by_chance + by_chance * jitter)


def _sound(text: str) -> str:
    """Return an error text with invalid Unicode replaced, cut at ERROR_LENGTH characters."""
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return (
        sound
        if len(sound) <= ERROR_LENGTH
        else f"{sound[:ERROR_LENGTH]} ... ({len(sound)} characters)"
    )
