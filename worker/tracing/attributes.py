"""Names of the span attributes: Perdure's own, and OpenTelemetry's ``error.type``."""

from __future__ import annotations

RUN = "perdure.run_id"
FLOW = "perdure.flow"
NODE = "perdure.node"
STEP = "perdure.step"
EPOCH = "perdure.epoch"
ATTEMPT = "perdure.attempt"
WORKER = "perdure.worker"
#: The outcome of the round in a word: ``continued``, ``completed``, ``waiting``, ``fenced``,
#: ``lost``, ...
OUTCOME = "perdure.outcome"
#: Seconds from the publishing of its message to the claim, by the server's clock.
QUEUE_WAIT = "perdure.queue_wait_seconds"
#: Workers lost during this step so far, this attempt's included.
LOSSES = "perdure.losses"
#: US dollars that the round's requests cost, if a price is known.
MONEY = "perdure.money"
#: The person who gave the answer of the round.
ANSWERED_BY = "perdure.answered_by"
ERROR = "error.type"
