"""ReadApi: the part of the contract of every client that reads runs.

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
    """How every client reads the runs of one server. Nothing here changes a run."""

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

        A completed or errored run is listed at the time of its end, any other at that of its
        submission.

        Args:
            limit: Maximum number of runs on the page.
            cursor: Cursor of the previous page, which must be of an equal status and submitter.
            labels: Only runs with these labels.
            submitted_by: Only runs of this submitter. They are ordered by their submission,
                whatever their status.
            look: Maximum number of runs to read. A page may then hold fewer than ``limit`` runs, or
                none, and still have a cursor.
            children: Child runs too, which are left out otherwise.
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
        """Return the ids that begin with ``text``, of the newest 10,000 runs of each index."""

    @abstractmethod
    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        """Return the number of runs per status; of one submitter, among their newest 1,000."""

    @abstractmethod
    def error_groups(
        self,
        flow: str | None = None,
        *,
        query: str | None = None,
        look: int | None = None,
        submitted_by: str | None = None,
    ) -> ErrorGroups:
        """Return the errored runs in groups by flow, node and kind of error, largest group first.

        Child runs are left out: they are retried with their parents. ``query`` of a group chooses
        its runs, for example in ``retry_many``.

        Args:
            query: Only runs that match this query line, as in ``runs``.
            look: Maximum number of errored runs to look at, newest first. None means 2,000. The
                result says how far it looked back.

        Raises:
            InvalidInput: The query cannot be read.
        """

    @abstractmethod
    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        """Return the run as soon as it has ended (completed, errored, stopped) or is interrupted.

        Raises:
            TimeoutError: That did not happen within ``timeout`` seconds. The run continues.
        """

    @abstractmethod
    def result(
        self, run: Run | str, timeout: float | timedelta | None = None, *, as_type: Any = None
    ) -> Any:
        """Return the answer of a run as soon as the run has ended, as a value of its type.

        It goes on waiting while the run waits for a person.

        Args:
            run: The run, or its id.
            as_type: The type of the answer: a pydantic model, a dataclass, a TypedDict, or any type
                that pydantic can read. None: the type of the run's flow (``Answer``), if this
                process knows the flow. Otherwise the answer is returned as JSON data.

        Raises:
            RunFailed: The run ended errored, stopped or unfinished. ``run`` of the error is the
                run.
            TimeoutError: The run did not end within ``timeout`` seconds. It continues.
            InvalidAnswer: The answer is of another type.
            InvalidInput: ``as_type`` is no type that pydantic can read.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def events(self, run_id: str, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        """Return the run's events, oldest first, starting after the event ``after``.

        With ``follow`` the iterator ends when the run has ended; without, after the stored events.
        If events after ``after`` are gone (``keep_events`` of the flow), the first one is of type
        ``trimmed``.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def stream(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> Iterator[StreamItem]:
        """Return the run's events, and between them the text that its rounds show meanwhile.

        That is what a model has replied so far, or a node shows with ``context.stream``. A program
        that lost its connection goes on with ``after``, and misses nothing.

        Args:
            after: the id of an item. None: from the beginning.
            follow: as for ``events``.

        Raises:
            RunNotFound: No run has this id.
            InvalidInput: ``after`` is no id of an item.
        """

    @abstractmethod
    def latest_events(
        self, run_id: str, limit: int = 100, before: str | None = None
    ) -> list[Event]:
        """Return the run's last events (before the event ``before``), oldest first.

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
        """Return the child runs that a run has started, in the order of their start.

        Children that have been deleted, or have expired, are left out. If the run's oldest events
        are gone, so are the children that they tell of, except those of the groups that it still
        has.

        Args:
            limit: how many to look at.
            cursor: of the page before.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def tree(self, run_id: str, depth: int = 3, width: int = 10) -> RunTree:
        """Return a run with the runs below it.

        Of the children of one run, ``width`` of each flow and status are listed. The others are
        counted. The status of at most 10,000 runs is read.

        Args:
            depth: the number of generations below the run, at most 32.
            width: how many children of a kind are listed.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def prompt(self, run_id: str, step: int) -> PromptOfRound:
        """Return what a round of a run sent to its model, or what its next round would send.

        It is made again from what is stored of the run, by the code of its flow. ``exact`` says
        whether it equals what was sent.

        Raises:
            RunNotFound: No run has this id.
            UnknownFlow: The process that makes it does not know the run's flow.
            InvalidInput: The run has no such step, or its round asks no model.
        """

    @abstractmethod
    def artifacts(self, run_id: str) -> dict[str, int]:
        """Return the names of the run's artifacts, each with its size in bytes.

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
        """Return the names, media types and sizes of the run's files.

        They are the files that were submitted with it, and those that its rounds have attached.

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
        """Return the runs (of one submitter) that wait for a person, longest first.

        ``cursor`` continues where a page ended. With ``below``, only the children of this run are
        returned, their children, and so on.

        A page without ``below`` looks at 5,000 waiting runs at most, first submitted first. Beside
        more than that, it may hold fewer runs than ``limit`` and still have a cursor.
        """

    @abstractmethod
    def unread(self, run_id: str) -> dict[str, int]:
        """Return how many signals of each name no round of the run has used yet.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def values(self, run_id: str) -> dict[str, Any]:
        """Return the values that a run's rounds have returned so far, by name.

        They are those of the last commit, also while the run works.

        Raises:
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def value(self, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
        """Return one of the values that a run's rounds have returned.

        Args:
            wait: Seconds to wait until there is one. The end of the run ends the wait.

        Raises:
            ValueNotFound: There is none (yet). The message lists the run's values.
            RunNotFound: No run has this id.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections of this client."""
