"""Streams of runs in the protocols of chat interfaces: Vercel's AI SDK and AG-UI.

A run is one response of an assistant. ``response.py`` turns the run's stream into the events of a
response. ``ai_sdk.py`` and ``ag_ui.py`` write these events in their protocol.
``ai_sdk_requests.py`` and ``ag_ui_requests.py`` read the requests. Only ``worker/web/api`` imports
this package.
"""
