"""Flows written in YAML.

Text becomes data with line numbers. The data becomes a flow that consists of registered commands,
nodes and controllers.
"""
