"""The names and types of the options of a submission. ``submit`` describes each option."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from perdure.flows.core.files import File
    from perdure.flows.core.retry import Retry
    from perdure.worker.domain.submission import When


class ForkOptions(TypedDict, total=False):
    """Options of a fork. The default of each option is None."""

    run_id: str | None
    idempotency_key: str | None
    interrupt_before: Sequence[str] | None
    interrupt_after: Sequence[str] | None
    max_rounds: int | None
    not_before: When | None
    deadline: When | None
    thread_id: str | None
    labels: Mapping[str, str] | None
    budgets: Mapping[str, float] | None
    retry: Retry | Mapping[str, Any] | None
    submitted_by: str | None
    on_end: Mapping[str, Any] | str | None
    nonce: str | None
    model: str | None


class SubmissionOptions(ForkOptions, total=False):
    """Options of a submission. The default of each option is None."""

    topic: str | None
    files: Sequence[File | str | os.PathLike[str]] | None
