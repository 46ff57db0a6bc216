"""Flows that are written in YAML.

A file's text becomes data with line numbers. The data becomes a flow that consists of registered
commands, nodes and controllers.
"""
