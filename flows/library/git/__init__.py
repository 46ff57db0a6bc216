"""The parts of ``bisect`` for git, worktrees and shell commands.

They know nothing of runs and rounds.
"""
