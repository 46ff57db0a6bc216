"""Telemetry: one OpenTelemetry trace a run. It needs the API alone; who wants traces brings an SDK, or lets ``exporting`` set one up.

``switch``, ``submissions``, ``rounds`` and ``carried`` are all that a process loads in which nobody traces. ``roots``: the span of the run
itself, and how rounds find it. ``attempts``: the span of each attempt of a round. ``losses``: those of attempts whose worker cannot end
them.
"""
