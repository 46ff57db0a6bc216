"""Streams of runs in the protocols of chat interfaces: Vercel's AI SDK and AG-UI.

A run is one response of an assistant. ``response.py`` reads the run's stream and says what happens
in it; ``ai_sdk.py`` and ``ag_ui.py`` write that down. Only ``worker/web/api`` imports this package.
"""
