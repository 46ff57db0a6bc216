"""Adapters run agents of other libraries as workflows. Each needs its library."""
