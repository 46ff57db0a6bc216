"""The jitter tool: plays tests under pauses and load, and lists those whose verdict changes."""
