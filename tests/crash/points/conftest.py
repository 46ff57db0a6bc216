"""The stage of stories: a separate server for each file, and an engine that does not wait."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator

import pytest
import redis.utils
from kombu import transport

from perdure.worker.app import make_app
from perdure.worker.engine import commit
from perdure.worker.engine.fast import handoff
from perdure.worker.messaging import outbox_publisher
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.crash.points.broker import Transport
from tests.crash.points.stage import LISTS, STAYING, Stage
from tests.support.redis_servers import CrashableServer
from tests.support.redis_servers import server as server_of_its_own


@pytest.fixture(scope="module")
def stage_server() -> Iterator[CrashableServer]:
    """Everything on it is thrown away before each story."""
    with pytest.MonkeyPatch.context() as patch, server_of_its_own("valkey", "everysec") as running:
        patch.setattr(
            commit, "COMMIT_PAUSE", 0.0
        )  # a commit that is refused is offered again at once
        patch.setattr(
            outbox_publisher, "SPARED", 0.0
        )  # and a broker that did not answer is asked again
        patch.setattr(handoff, "STAY_SECONDS", math.inf)  # no clock decides how long a run stays
        patch.setattr(
            handoff, "RECHECK_AFTER", math.inf
        )  # nor whether a round looks at its run's stop before it begins
        # redis-py reads its own version from the disk for every connection: a tenth of a story.
        patch.setattr(redis.utils, "get_lib_version", functools.cache(redis.utils.get_lib_version))
        logger, level = logging.getLogger("perdure"), logging.getLogger("perdure").level
        logger.setLevel(
            logging.CRITICAL
        )  # log lines of hundreds of faults, with their traces, would only hide a failure here
        yield running
        logger.setLevel(level)


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, stage_server: CrashableServer) -> Iterator[Stage]:
    """Same server: runs and messages in one database.

    Its parameter: LISTS, or STAYING, where a worker plays on the rounds that its commits bring.
    """
    settings = Settings(redis_url=stage_server.url, prefix="points")
    inspector = Store(stage_server.url, "points")
    yield Stage(
        settings,
        make_app(settings),
        stage_server.url,
        inspector,
        fetches=getattr(request, "param", LISTS) == STAYING,
    )
    inspector.close()


@pytest.fixture(scope="module")
def outbox_stage(stage_server: CrashableServer) -> Iterator[Stage]:
    """The messages in another database, published after the commit, and acknowledged late."""
    elsewhere = (
        stage_server.url.replace("db=0", "db=1")
        if "db=" in stage_server.url
        else f"{stage_server.url}?db=1"
    )
    settings = Settings(redis_url=stage_server.url, broker_url=elsewhere, prefix="points")
    inspector = Store(stage_server.url, "points", outbox=True)
    with pytest.MonkeyPatch.context() as patch:
        # Not the alias: kombu asks for that once in a process, and another test may have asked
        # before.
        patch.setitem(transport._transport_cache, "perdure", Transport)
        yield Stage(settings, make_app(settings), elsewhere, inspector, outbox=True)
    inspector.close()
