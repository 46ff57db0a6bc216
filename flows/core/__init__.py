"""The base of all of flows: errors, names, outcomes, JSON data, files, and plain rules."""
