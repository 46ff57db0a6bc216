"""Graphs of LangGraph as flows. It needs the extra ``langgraph``."""

from __future__ import annotations

from perdure.flows.adapters.langgraph import fork, graph_of, register_graph

__all__ = ["fork", "graph_of", "register_graph"]
