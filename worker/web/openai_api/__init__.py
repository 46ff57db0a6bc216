"""OpenAI's API for flows that are exposed to it: responses, chat completions and models.

A flow is a model, and a response's id is the run's. The API is under ``/v1``. Its state is in the
runs, so any server process can take the next request.
"""

from __future__ import annotations

from perdure.worker.web.openai_api.routes import openai_router

__all__ = ["openai_router"]
