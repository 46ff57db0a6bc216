"""Texts about runs that the command line and the dashboard share."""
