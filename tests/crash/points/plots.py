"""The plots that are played: what a run can go through, each operation at least once."""

from __future__ import annotations

from tests.crash.points.plot import Plot

#: A person is asked, stops the run gracefully in the middle of a round and resumes it; it ends errored and is retried; it completes.
WHOLE = Plot("whole", effects=2, asks=0, breaks=1, stops=(2, "graceful"))
#: A round is stopped now behind its effect, resumed while its token is held; another fails once and is tried again by itself.
HASTY = Plot("hasty", effects=2, hiccups=1, stops=(1, "now"))
#: Two rounds' worth of nothing special: for what depends on the hand-over alone.
PLAIN = Plot("plain", effects=1)
