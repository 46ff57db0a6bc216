"""Words for people: what the console and the dashboard say of runs, in the same words."""
