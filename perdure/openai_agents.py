"""Agents of the OpenAI Agents SDK as workflows. It needs the extra ``openai-agents``."""

from __future__ import annotations

from perdure.flows.adapters.openai_agents import PerdureRunner, register_agent, run_agent

__all__ = ["PerdureRunner", "register_agent", "run_agent"]
