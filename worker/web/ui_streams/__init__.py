"""Streams of runs in the protocols of chat interfaces: Vercel's AI SDK and AG-UI.

A run is one response of an assistant. ``response.py`` turns the run's stream into the texts, tool
calls and questions of a response. ``ai_sdk.py`` and ``ag_ui.py`` write them as events of their
protocols. Only ``worker/web/api`` imports this package.
"""
