"""Finds the flows of a user's Celery app.

They are the flows that ``install`` received, and those in the modules ``perdure_flows`` of the
app's packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow

if TYPE_CHECKING:
    from celery import Celery

#: The module to find in each package, as Celery finds ``tasks``.
MODULE = "perdure_flows"


def find_flows_of_app(app: Celery, sources: Sequence[str | type[Flow] | Flow]) -> None:
    """Import and register the flows of a user's Celery app.

    They are the flows in ``sources``, and those in the modules ``perdure_flows`` of the app's
    packages.

    Args:
        sources: Flows, or names of modules that register flows.

    Raises:
        InvalidFlow: A module cannot be imported, a flow has no name, or a Django project cannot be
            loaded.
    """
    _load_django(app)
    registry.load_modules([source for source in sources if isinstance(source, str)])
    for source in sources:
        if not isinstance(source, str):
            _register(source)
    try:
        app.autodiscover_tasks(related_name=MODULE, force=True)  # of installed Django apps
        app.autodiscover_tasks(list(_packages(app)), related_name=MODULE, force=True)
    except InvalidFlow:
        raise
    # A module may raise anything. The worker then runs no rounds, but the app's own tasks.
    except Exception as error:
        raise InvalidFlow(
            f"a module {MODULE} of Celery app {app.main!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error


def _load_django(app: Celery) -> None:
    """Load the apps of a Django project, because modules with flows may import models.

    Celery does so in a worker, but not in its other commands. Nothing happens without a Django
    project, or while Django loads its apps itself.

    Raises:
        InvalidFlow: The Django project cannot be loaded.
    """
    django = sys.modules.get("django")  # Celery imports it if DJANGO_SETTINGS_MODULE is set
    if django is None or not os.environ.get("DJANGO_SETTINGS_MODULE"):
        return
    from django.apps import apps  # type: ignore[import-untyped]

    if apps.ready or apps.loading:
        return
    try:
        django.setup()
    # A project's settings and models may raise anything.
    except Exception as error:
        raise InvalidFlow(
            f"the Django project of Celery app {app.main!r} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def _register(flow: type[Flow] | Flow) -> None:
    if isinstance(flow, type) and registry.name_of(flow) is not None:
        return
    if isinstance(flow, ModuleType):
        raise InvalidFlow(
            f"install(app, flows=[...]) expects names of modules, and flows; "
            f"got the module itself. Pass its name: {flow.__name__!r}"
        )
    if not flow.name:
        raise InvalidFlow(
            f"{flow!r} has no name: register it with @register(NAME), "
            "or name its module in install(app, flows=[...])"
        )
    registry.register(flow.name, flow)


def _packages(app: Celery) -> Iterable[str]:
    """Return the packages to search for an app's flows.

    They are the app's own package, and the packages of the modules that the app's configuration
    imports. Packages that do not exist are left out.
    """
    modules = [*(app.conf.imports or ()), *(app.conf.include or ())]
    parents = (module.rpartition(".")[0] for module in modules if isinstance(module, str))
    names = dict.fromkeys(name for name in (app.main, *parents) if name and name != "__main__")
    return [name for name in names if _exists(name)]


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
