"""The plots that are played: the possible courses of a run, each operation at least once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.points.plot import Plot
from tests.crash.points.stage import LISTS, STAYING

#: A person is asked, stops the run gracefully in the middle of a round and resumes it; it ends
#: errored and is retried; it completes.
WHOLE = Plot("whole", effects=2, asks=0, breaks=1, stops=(2, "graceful"))
#: A round is stopped now behind its effect, resumed while its token is held; another fails once and
#: is tried again by itself.
HASTY = Plot("hasty", effects=2, hiccups=1, stops=(1, "now"))
#: Its rounds stay: stopped gracefully in the middle of such a one, a person is asked in another.
#: Its first message comes twice.
STAYS = Plot("stays", effects=3, asks=2, stops=(2, "graceful"), doubled=True)
#: Stopped now behind the effect of a round that stayed, resumed while its token is held.
RESTLESS = Plot("restless", effects=2, stops=(3, "now"))
#: It sleeps, is stopped and resumed in its sleep, and waits for a signal.
WAITS = Plot("waits", effects=2, naps=0, halts=0, awaits=1)
#: It waits for a signal whose round stays, is stopped in that wait, and sleeps after it.
DOZES = Plot("dozes", effects=2, awaits=0, halts=0, naps=1)
#: It has two children, one after the other, and is stopped and resumed while it waits for them.
BEARS = Plot("bears", effects=2, bears=0, halts=0)
#: The same in rounds that stay, and it is stopped in a sleep behind them.
BREEDS = Plot("breeds", effects=2, bears=0, naps=1, halts=1)
#: It has two children, then a round that uses a signal also renews it, which removes a turn and a
#: value.
RENEWS = Plot("renews", effects=2, bears=0, awaits=1, renews=1)
#: Two plain rounds: for tests of the hand-over alone.
PLAIN = Plot("plain", effects=1)


def acts(*plots: tuple[str, Plot]) -> Any:
    """Parametrize a test's ``stage`` and ``plot``: each of these plots on the stage beside it."""
    return pytest.mark.parametrize(
        ("stage", "plot"),
        plots,
        ids=[f"{plot.name} {stage}" for stage, plot in plots],
        indirect=["stage"],
    )


#: The plots where each has most to show; of WHOLE and HASTY on the other stage, where few rounds
#: stay, each death is played.
EVERY_ACT = acts(
    (LISTS, WHOLE),
    (LISTS, HASTY),
    (STAYING, STAYS),
    (STAYING, RESTLESS),
    (LISTS, WAITS),
    (STAYING, DOZES),
    (LISTS, BEARS),
)
