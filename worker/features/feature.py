"""Feature: the attributes and methods by which a feature extends Perdure.

A method imports the modules of its feature when it is called. So a process loads no module that it
does not use.
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
    """A link to a feature's page in the dashboard's navigation.

    The link is visible while its number (``Feature.badge``) is above 0 or its page is shown.

    Attributes:
        path: The page's path below the root of the dashboard, such as ``notifications``.
        title: The link's text.
        unit: A word for the counted things, such as ``undelivered``. Screen readers say it after
            the number.
        about: A phrase about the content of the page. It follows "Elsewhere:" and ends without a
            full stop.
    """

    path: str
    title: str
    unit: str
    about: str


class Panel(NamedTuple):
    """A part of the dashboard's overview.

    Attributes:
        template: The path of the feature's template, ``FEATURE/FILE.html``.
        data: The value of the template's variable ``data``.
    """

    template: str
    data: Mapping[str, Any]


class Process(Protocol):
    """The parts of a worker's main process that features may use.

    Attributes:
        app: The Celery app.
        owns_app: Whether the app is Perdure's own. Such an app knows only the queues of rounds.
        name: The worker's name.
        store: The store on the state server.
        settings: The worker's settings.
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
    """A feature's threads in a worker, beside the threads that execute rounds."""

    def start(self) -> None:
        """Start the threads."""

    def stop(self) -> None:
        """Stop the threads. The worker calls this after its rounds have ended."""


class Feature:
    """A feature: an extension of Perdure. The defaults here add nothing.

    Attributes:
        name: The name of its folder, of its keys in Redis and of its templates.
        commands: The help line of each CLI command, by name. Its module ``command`` defines the
            commands.
        page: The link to its page in the dashboard. None if it has no page.
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
        """Return the feature's part of the overview. None if the feature has no such part.

        It is called only for a caller who may read all runs.

        Args:
            client: The client of the caller (``AuthorizedClient``).
            span: The name of the time span of charts: ``hour``, ``day`` or ``week``.
        """
        return None

    def add_totals(
        self, pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int
    ) -> None:
        """Add Redis commands to the pipeline that stores metric totals.

        A worker calls this hook when it stores its totals. A feature overrides the method to store
        further data in the same exchange. By default, nothing is added.

        Args:
            pipe: redis-py's pipeline. The caller executes it.
            amounts: The amounts that the pipeline adds to totals, by the total's name and labels.
            now: The present time in ms.
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
        """Return fields of the ``RoundContext`` of a round, by name.

        Fields that are not returned have their defaults. Every round calls this method, so it must
        not read from the state server.

        Args:
            fence: The claim of the round. None if no round runs: the context only serves to rebuild
                a prompt.
            broken: A function to call with an error of the store before the error is raised. The
                node may catch the error, but then the round is not committed.
        """
        return {}

    def background(self, process: Process) -> Background | None:
        """Return the feature's threads in a worker. None if the settings need no threads."""
        return None

    def findings(self, inspection: Inspection, store: Store) -> Iterable[Finding]:
        """Run the feature's checks for ``perdure doctor``, and return their findings."""
        return ()

    def metrics(self, store: Store | None, totals: Mapping[str, str]) -> Iterator[Any]:
        """Yield metrics (``prometheus_client.Metric``).

        Args:
            store: The store to read from. None: read nothing, because only the names of the metrics
                are needed.
            totals: The totals that workers have stored, as texts by their field in Redis.
        """
        yield from ()
