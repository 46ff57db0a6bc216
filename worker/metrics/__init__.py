"""Metrics: what Prometheus is told of the runs, the queues and the workers. Needs the extra ``server``; docs/metrics.md explains each.

Everything is read from the state server when somebody asks, in two exchanges whose cost does not grow with the number of runs. So any
server process tells the same, and none has to live long for a total to grow.
"""

from __future__ import annotations

from worker.metrics.telling import exposition

__all__ = ["exposition"]
