"""The modules on which all other modules of flows build: errors, names, outcomes and JSON data."""
