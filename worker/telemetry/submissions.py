"""What a submission asks for where runs may be traced. Loads nothing of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from worker.telemetry.switch import is_on


class Root:
    """The span of a run that is being submitted; this one tells nobody.

    Attributes:
        fields: what the run is to keep of it.
        made: set once the run has come of this submission; of one that is repeated it has not.
    """

    fields: Mapping[str, str] = MappingProxyType({})
    made = False


def traced_submission(flow: str, run_id: str) -> AbstractContextManager[Root]:
    """The run's root span, ended with the block; one that tells nobody where nobody traces."""
    if not is_on():
        return nullcontext(Root())
    from worker.telemetry.roots import submission

    return submission(flow, run_id)
