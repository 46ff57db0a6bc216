"""ReadApi: the methods of every client that read runs.

Some methods are derived from operations (``ReadMethods``). The others are abstract here.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.worker.client.read_methods import ReadMethods

if TYPE_CHECKING:
    from perdure.worker.domain.run import Run


class ReadApi(ReadMethods):
    """The methods of every client that read the runs of one server. None changes a run."""

    @abstractmethod
    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        """Wait until a run ends or is interrupted, and return it.

        A run ends completed, errored or stopped.

        Args:
            timeout: Seconds to wait. None waits without a limit.

        Raises:
            TimeoutError: The run neither ended nor was interrupted in time. It continues.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def result(
        self, run: Run | str, timeout: float | timedelta | None = None, *, as_type: Any = None
    ) -> Any:
        """Wait until a run ends, and return its answer.

        The answer is a value of the flow's type (see ``as_type``). The call keeps waiting while the
        run waits for a person.

        Args:
            run: The run, or its id.
            timeout: Seconds to wait. None waits without a limit.
            as_type: The type of the answer: a pydantic model, a dataclass, a TypedDict, or any type
                that pydantic can read. None: the type of the run's flow (``Answer``), if this
                process knows the flow. Otherwise the answer is returned as JSON data.

        Raises:
            RunFailed: The run ended errored, stopped or unfinished. ``run`` of the error is the
                run.
            TimeoutError: The run did not end in time. It continues.
            InvalidAnswer: The answer does not fit the type.
            InvalidInput: ``as_type`` is no type that pydantic can read.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections of this client."""
