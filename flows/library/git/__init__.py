"""The parts of ``bisect`` for git, worktrees and shell commands.

They do not use runs and rounds.
"""
