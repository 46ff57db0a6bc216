"""The parts of the flow ``bisect`` that deal with git, worktrees and shell commands.

They know nothing of runs and rounds.
"""
