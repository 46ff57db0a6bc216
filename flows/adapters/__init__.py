"""Adapters, by which agents of other libraries run as workflows. Each needs its library."""
