"""Views of a run on terminals and in pipes."""
