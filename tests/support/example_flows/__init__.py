"""Flows for tests, registered in workers by ``PERDURE_FLOW_MODULES``."""
