"""Views of a run on a terminal and in pipes."""
