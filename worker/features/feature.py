"""Feature: the attributes and methods by which a feature extends Perdure.

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
    """A link in the dashboard's navigation, while its number is above 0 or its page is shown.

    Attributes:
        path: The page's path below the root of the dashboard, such as ``notifications``.
        title: The link's text.
        unit: What the number counts, in a word for screen readers.
        about: The content of the page, as a part of a sentence.
    """

    path: str
    title: str
    unit: str
    about: str


class Panel(NamedTuple):
    """A part of the dashboard's overview.

    Attributes:
        template: ``NAME/FILE.html``, the feature's template.
        data: What the template reads as ``data``.
    """

    template: str
    data: Mapping[str, Any]


class Process(Protocol):
    """The parts of a worker's main process that features may use.

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
        """End the work. It is called after the worker's rounds have ended."""


class Feature:
    """A feature: an extension of Perdure. The defaults here add nothing.

    Attributes:
        name: The name of its folder, of its keys in Redis and of its templates.
        commands: The help line of each CLI command, by name. The module ``command`` has them.
        page: Its page in the dashboard's navigation.
        scripts: The names of its Lua files, in its folder ``lua``. ``store._call`` runs them.
    """

    name: ClassVar[str]
    commands: ClassVar[Mapping[str, str]] = {}
    page: ClassVar[PageLink | None] = None
    scripts: ClassVar[tuple[str, ...]] = ()

    def routes(self) -> Iterable[Any]:
        """Return routers (``APIRouter``) of the HTTP API, for authenticated callers."""
        return ()

    def pages(self) -> Iterable[Any]:
        """Return the routers (``APIRouter``) of the dashboard's pages."""
        return ()

    def badge(self, client: Any) -> int:
        """Return the number beside the page's link in the navigation. 0 shows none.

        Args:
            client: The client of the caller (``AuthorizedClient``).
        """
        return 0

    def panel(self, client: Any, span: str) -> Panel | None:
        """Return the feature's part of the overview, for a caller who may read all runs.

        Args:
            client: The client of the caller (``AuthorizedClient``).
            span: The time that charts cover (worker/domain/chart_spans.py).
        """
        return None

    def add_totals(
        self, pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int
    ) -> None:
        """Add Redis commands to the pipeline with which a worker stores totals of metrics.

        Args:
            amounts: The amounts that the pipeline adds, by the total's name and labels.
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
        """Return fields for the ``RoundContext`` of a round. Other fields keep their defaults.

        It is called in each round, so it must not read from the state server.

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
            totals: The totals that workers have stored, as ``store.figures.look`` reads them.
        """
        yield from ()
