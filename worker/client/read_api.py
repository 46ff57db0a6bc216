"""ReadApi: the part of every client's contract that reads runs.

Its docstrings document the methods of all clients.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.flows.core.files import File, FileReference
    from perdure.worker.domain.error_groups import ErrorGroups
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.interrupt import Inbox
    from perdure.worker.domain.prompt import PromptOfRound
    from perdure.worker.domain.run import Page, Run, RunStatus
    from perdure.worker.domain.run_tree import RunTree
    from perdure.worker.domain.stream import StreamItem
    from perdure.worker.domain.transcript import Transcript
    from perdure.worker.domain.verdict import Verdict


class ReadApi(metaclass=ABCMeta):
    """Reads of every client on the runs of one server. None changes a run."""

    @abstractmethod
    def get(self, run_id: str) -> Run:
        """Return the current state of the run.

        Raises:
            RunNotFound: No run has this id.
            DamagedRun: A field of the run cannot be read.
        """

    @abstractmethod
    def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        submitted_by: str | None = None,
        look: int | None = None,
        children: bool = False,
        parent: str | None = None,
        thread_id: str | None = None,
        query: str | None = None,
    ) -> Page:
        """Return a page of runs, newest first.

        Completed and errored runs are ordered by the time of their end, all others by the time of
        their submission.

        Args:
            limit: Maximum number of runs on the page.
            cursor: Cursor of the previous page, from a call with the same status and submitter.
            labels: Only runs with these labels.
            submitted_by: Only runs of this submitter. They are ordered by their submission,
                whatever their status.
            look: Maximum number of runs to read. A page may then hold fewer than ``limit`` runs, or
                none, and still have a cursor.
            children: Whether to list child runs too.
            parent: Only the children of this run, in the order of their start.
            thread_id: Only runs of this thread.
            query: A query line, such as ``status:errored label:team=a submitted:<1d "some words"``.
                Its keys are described in docs/guides/find-runs.md. With ``sort:duration`` or
                ``sort:cost`` the page has the largest of the next ``look`` runs (2,000 if not
                given).

        Raises:
            RunNotFound: No run has the id ``parent``.
            InvalidInput: The query cannot be read.
        """

    @abstractmethod
    def ids_beginning(self, text: str) -> list[str]:
        """Return the run ids that begin with ``text``.

        It searches the newest 10,000 runs of each index.
        """

    @abstractmethod
    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        """Return the number of runs per status.

        For one submitter, only their newest 1,000 runs count.
        """

    @abstractmethod
    def error_groups(
        self,
        flow: str | None = None,
        *,
        query: str | None = None,
        look: int | None = None,
        submitted_by: str | None = None,
    ) -> ErrorGroups:
        """Return the errored runs in groups, largest group first.

        The runs of a group share flow, node and kind of error. Child runs are left out, because
        they are retried with their parents. A group's ``query`` selects its runs, for example in
        ``retry_many``.

        Args:
            query: Only runs that match this query line, as in ``runs``.
            look: Maximum number of errored runs to look at, newest first. None means 2,000. The
                result has the time up to which it looked back (``looked_back``).

        Raises:
            InvalidInput: The query cannot be read.
        """

    @abstractmethod
    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        """Wait until a run ends or is interrupted, and return it.

        A run ends completed, errored or stopped.

        Raises:
            TimeoutError: Neither happened within ``timeout`` seconds. The run continues.
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
            as_type: The type of the answer: a pydantic model, a dataclass, a TypedDict, or any type
                that pydantic can read. None: the type of the run's flow (``Answer``), if this
                process knows the flow. Otherwise the answer is returned as JSON data.

        Raises:
            RunFailed: The run ended errored, stopped or unfinished. ``run`` of the error is the
                run.
            TimeoutError: The run did not end within ``timeout`` seconds. It continues.
            InvalidAnswer: The answer does not fit the type.
            InvalidInput: ``as_type`` is no type that pydantic can read.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def events(self, run_id: str, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        """Return the run's events, oldest first.

        With ``after``, they start behind the event of this id. With ``follow``, the iterator ends
        when the run has ended, otherwise behind the stored events. If events after ``after`` are
        gone (``keep_events`` of the flow), the first event has the type ``trimmed``.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def stream(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> Iterator[StreamItem]:
        """Return the run's events and its live text.

        Live text is the reply of a model so far, or text that a node shows with ``context.stream``.
        A program that lost its connection continues with ``after``, and misses nothing.

        Args:
            after: Id of the last item that was read. None means from the beginning.
            follow: As for ``events``.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput: ``after`` is no id of an item.
        """

    @abstractmethod
    def latest_events(
        self, run_id: str, limit: int = 100, before: str | None = None
    ) -> list[Event]:
        """Return the run's last events, oldest first.

        With ``before``, they are the last events before the event of this id.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def transcript(self, run_id: str) -> Transcript:
        """Return the whole run as JSON data: ``run``, ``history`` and ``events``.

        ``run`` includes its ``options`` and its named ``values``. For a live run, run and history
        are of one step, while the events may include later ones.
        """

    @abstractmethod
    def children(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        """Return a run's children in order of their start.

        Deleted and expired children are left out. If the run's oldest events are gone, the children
        recorded in them are missing too, except for groups that the run still has.

        Args:
            limit: Maximum number of children to look at.
            cursor: Cursor of the previous page.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def tree(self, run_id: str, depth: int = 3, width: int = 10) -> RunTree:
        """Return a run with the runs below it.

        It lists ``width`` children of each flow and status of a run, and counts the others. It
        reads the status of at most 10,000 runs.

        Args:
            depth: Number of generations below the run, at most 32.
            width: Maximum number of listed children per flow and status.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def prompt(self, run_id: str, step: int) -> PromptOfRound:
        """Return the prompt of a committed or next round.

        The code of the flow rebuilds it from the stored run. ``exact`` tells whether it equals the
        prompt that was sent. It is None for the next round.

        Raises:
            RunNotFound: No run has this id.
            UnknownFlow: The process that rebuilds the prompt does not know the run's flow.
            InvalidInput: The run has no such step, or its round asks no model.
        """

    @abstractmethod
    def artifacts(self, run_id: str) -> dict[str, int]:
        """Return the run's artifact names and sizes (bytes).

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def artifact(self, run_id: str, name: str) -> str:
        """Return the text of an artifact.

        Raises:
            RunNotFound: No run has this id.
            ArtifactNotFound: The run has no artifact of this name. The message lists its artifacts.
        """

    @abstractmethod
    def files(self, run_id: str) -> list[FileReference]:
        """Return references to the run's files.

        A reference has the file's name, media type and size. The files were submitted with the run
        or attached by its rounds.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def file(self, run_id: str, name: str) -> File:
        """Return a file of the run: its bytes and its media type.

        Args:
            name: The file's name in the run, as its reference has it.

        Raises:
            RunNotFound: No run has this id.
            ArtifactNotFound: The run has no file of this name. The message lists its files.
        """

    @abstractmethod
    def why(self, run_id: str) -> Verdict:
        """Return why the run is in its current state: one code, one sentence, since when.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def inbox(
        self,
        limit: int = 50,
        cursor: str | None = None,
        submitted_by: str | None = None,
        below: str | None = None,
    ) -> Inbox:
        """Return runs that wait for a person, longest first.

        ``cursor`` continues after the previous page. ``submitted_by`` limits the page to runs of
        one submitter, ``below`` to the children of a run, their children, and so on.

        A page without ``below`` looks at 5,000 waiting runs at most, first submitted first. If more
        are waiting, it may hold fewer runs than ``limit`` and still have a cursor.
        """

    @abstractmethod
    def unread(self, run_id: str) -> dict[str, int]:
        """Return the number of unread signals per name.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def values(self, run_id: str) -> dict[str, Any]:
        """Return the values that a run's rounds returned.

        The values are by name, as of the last commit, even while a round is running.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def value(self, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
        """Return one value that a run's rounds returned.

        Args:
            wait: Seconds to wait for the value. The wait ends early when the run completes.

        Raises:
            ValueNotFound: The run has no such value (yet). The message lists the run's values.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections of this client."""
