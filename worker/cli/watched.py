"""Watched: a child that is started again when it ends."""

from __future__ import annotations

import time

import click

from worker.cli.child import Child
from worker.cli.exits import Failed

#: One that ends this often, each time within SOON seconds of its start, will not live the next time either.
DEATHS, SOON = 4, 10.0


class Watched:
    """A child, looked at now and then.

    Args:
        name: what it is called when something is said of it.
        promise: what is said of the one that takes its place.
    """

    def __init__(self, name: str, child: Child, promise: str = "") -> None:
        self.name = name
        self.child = child
        self._promise = promise
        self._started, self._soon = time.monotonic(), 0

    def look(self) -> None:
        """Start it again if it has ended.

        Raises:
            Failed: it ends again and again.
        """
        code = self.child.exit_code
        if code is None:
            return
        self._soon = self._soon + 1 if time.monotonic() - self._started < SOON else 1
        if self._soon == DEATHS or code == 2:  # 2: it does not understand how it was called, and will not the next time
            raise Failed(
                f"the {self.name} ended {self._soon} times in a row right after its start, at last with exit code {code}; see above why"
            )
        click.echo(f"the {self.name} ended ({_ending(code)}); starting another{self._promise}", err=True)
        self.child.restart()
        self._started = time.monotonic()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
