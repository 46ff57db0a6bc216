"""Feature: what a feature may offer to the rest of the tree.

A method imports what it needs when it is called, so that a process loads what it uses and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from perdure.flows.rounds.flow import Flow
    from perdure.worker.domain.record import Record
    from perdure.worker.domain.verdict import Finding
    from perdure.worker.settings import Settings
    from perdure.worker.store import Store
    from perdure.worker.store.fence import Fence
    from perdure.worker.store.inspection import Inspection
    from perdure.worker.store.keys import Keys


class PageLink(NamedTuple):
    """A page of the dashboard that is in the navigation while it has a number or is shown.

    Attributes:
        path: Below the root of the dashboard, ``notifications``.
        title: The link's text.
        unit: What the number counts, in a word for screen readers.
        about: What is on the page, within a sentence.
    """

    path: str
    title: str
    unit: str
    about: str


class Panel(NamedTuple):
    """A part of the overview.

    Attributes:
        template: ``NAME/FILE.html``, the feature's template.
        data: What the template reads as ``data``.
    """

    template: str
    data: Mapping[str, Any]


class Process(Protocol):
    """What features may use of a worker's main process.

    Attributes:
        app: The Celery app.
        owns_app: Whether the app is Perdure's own, which knows only the queues of rounds.
        name: The worker's name.
    """

    @property
    def app(self) -> Any: ...
    @property
    def owns_app(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def settings(self) -> Settings: ...


class Background(Protocol):
    """Work beside the rounds of a worker, in threads of its own."""

    def start(self) -> None:
        """Begin to work."""

    def stop(self) -> None:
        """End the work. The worker's rounds have ended."""


class Feature:
    """A feature, which offers nothing but what it overrides.

    Attributes:
        name: The name of its folder, of its keys in Redis and of its templates.
        commands: The help's line of each of its commands. Its module ``command`` has them.
        page: Its page in the dashboard's navigation.
        scripts: The names of its Lua files, in its folder ``lua``. ``store._call`` runs them.
    """

    name: ClassVar[str]
    commands: ClassVar[Mapping[str, str]] = {}
    page: ClassVar[PageLink | None] = None
    scripts: ClassVar[tuple[str, ...]] = ()

    def routes(self) -> Iterable[Any]:
        """Return the routers (``APIRouter``) of the HTTP API whose callers are known."""
        return ()

    def pages(self) -> Iterable[Any]:
        """Return the routers (``APIRouter``) of the dashboard's pages."""
        return ()

    def badge(self, client: Any) -> int:
        """Return the number at the page's link in the navigation.

        Args:
            client: The client of the caller (``AuthorizedClient``).
        """
        return 0

    def panel(self, client: Any, span: str) -> Panel | None:
        """Return what the overview shows of the feature to a caller who may read all runs.

        Args:
            client: The client of the caller (``AuthorizedClient``).
            span: The time that charts cover (worker/domain/chart_spans.py).
        """
        return None

    def add_totals(
        self, pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int
    ) -> None:
        """Add commands to a pipeline that adds amounts to the totals of the metrics.

        Args:
            amounts: By the total's name and labels.
            now: The time in ms.
        """

    def context(
        self,
        store: Store,
        settings: Settings,
        record: Record,
        flow: Flow,
        fence: Fence | None = None,
        broken: Callable[[Exception], None] = lambda error: None,
    ) -> Mapping[str, Any]:
        """Return fields of the ``RoundContext`` of a run. Others keep their default.

        Each round calls it, so it reads nothing.

        Args:
            fence: The round's claim, or None for a reader.
            broken: Is called with an error that makes the round's result worthless.
        """
        return {}

    def background(self, process: Process) -> Background | None:
        """Return the feature's threads in a worker, or None if the settings ask for none."""
        return None

    def findings(self, inspection: Inspection, store: Store) -> Iterable[Finding]:
        """Run the checks of ``perdure doctor``, and return their findings."""
        return ()

    def metrics(self, store: Store | None, totals: Mapping[str, str]) -> Iterator[Any]:
        """Yield metrics (``prometheus_client.Metric``).

        Args:
            store: None yields the metrics without samples, to list their names.
            totals: The amounts that workers have counted, as ``store.figures.look`` reads them.
        """
        yield from ()
