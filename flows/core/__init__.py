"""What all of flows stands on: errors, names, outcomes, JSON data, files, and plain rules."""
