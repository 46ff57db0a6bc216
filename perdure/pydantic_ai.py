"""Agents of Pydantic AI as workflows. It needs the extra ``ai``: ``pip install 'perdure[ai]'``."""

from __future__ import annotations

from perdure.flows.adapters.pydantic_ai import PerdureDurability, register_agent, run_agent

__all__ = ["PerdureDurability", "register_agent", "run_agent"]
