"""Metrics of runs, queues and workers for Prometheus. Needs the extra ``server``."""
