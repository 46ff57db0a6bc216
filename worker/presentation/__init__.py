"""Texts about runs, shared by console and dashboard."""
