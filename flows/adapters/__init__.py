"""Adapters that run agents and graphs of other libraries. Each needs its library."""
