"""Flows written in YAML: text becomes data with line numbers, data becomes a flow of registered things."""
