"""Texts for people about runs, shared by the console and the dashboard."""
