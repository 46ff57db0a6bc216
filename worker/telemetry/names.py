"""Names of Holdfast's own span attributes, and of the one of OpenTelemetry's that every failed span has."""

from __future__ import annotations

RUN = "holdfast.run_id"
FLOW = "holdfast.flow"
NODE = "holdfast.node"
STEP = "holdfast.step"
EPOCH = "holdfast.epoch"
ATTEMPT = "holdfast.attempt"
WORKER = "holdfast.worker"
#: What the round came to, in a word: ``continued``, ``completed``, ``waiting``, ``fenced``, ``lost``, ...
OUTCOME = "holdfast.outcome"
#: Seconds from when its message was handed to the broker until the claim, by the server's clock.
QUEUE_WAIT = "holdfast.queue_wait_seconds"
#: Workers lost under this step so far, this attempt's included.
LOSSES = "holdfast.losses"
#: US dollars that the round's requests cost, where a price is known.
MONEY = "holdfast.money"
#: Who gave the answer that the round plays with.
ANSWERED_BY = "holdfast.answered_by"
ERROR = "error.type"
