"""The method ``result`` of the clients that block, and the parts that other waits share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.worker.client.read_api import ReadApi
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.operations import validation

if TYPE_CHECKING:
    from perdure.worker.domain.verdict import Verdict

T = TypeVar("T")


class RunResults(ReadApi):
    """The method ``result`` of the clients whose methods block."""

    @abstractmethod
    def _run_when(
        self, run_id: str, is_awaited: Callable[[Run], bool], timeout: float | None
    ) -> Run:
        """Wait until ``is_awaited`` returns True for a run, and return the run.

        Args:
            timeout: Seconds to wait. None waits without a limit.

        Raises:
            TimeoutError: ``is_awaited`` did not return True in time.
        """

    @abstractmethod
    def _find_flows(self) -> None:
        """Register the flows of this process."""

    @overload
    def result(
        self, run: Run | str, timeout: float | timedelta | None = None, *, as_type: type[T]
    ) -> T: ...
    @overload
    def result(
        self, run: Run | str, timeout: float | timedelta | None = None, *, as_type: Any = None
    ) -> Any: ...
    def result(
        self, run: Run | str, timeout: float | timedelta | None = None, *, as_type: Any = None
    ) -> Any:
        # Imported here, because it loads flows: few clients want a typed answer.
        from perdure.worker.client.typed_answers import answer_of

        run_id = id_of(run)
        ended = self._run_when(run_id, has_ended, validation.timeout(timeout))
        return answer_of(ended, as_type, self._find_flows)


def id_of(run: Run | str) -> str:
    """Return the id of a run. The argument is a ``Run``, or the id itself."""
    return run.id if isinstance(run, Run) else run


def has_ended(run: Run) -> bool:
    """Return whether a run has completed, errored or been stopped."""
    return run.status.ended


def rests(run: Run) -> bool:
    """Return whether a run has ended (``has_ended``) or is interrupted."""
    return run.status.ended or run.status is RunStatus.INTERRUPTED


def still(run: Run, timeout: float, verdict: Verdict) -> TimeoutError:
    """Return the error for a wait that timed out after ``timeout`` seconds.

    Args:
        verdict: The reason for the run's current state. If the run does not continue by itself, for
            example because no worker can take it, the error contains the verdict's sentence.
    """
    from perdure.worker.domain.verdict import MOVING  # Few commands need it.

    waits = f" ({run.state.interrupt_reason})" if run.status is RunStatus.INTERRUPTED else ""
    moves = "; it continues" if verdict.code in MOVING else f": {verdict.sentence}"
    return TimeoutError(
        f"run {run.id} is still {run.status.value}{waits} at step {run.state.step} "
        f"after {timeout:g} s{moves}"
    )
