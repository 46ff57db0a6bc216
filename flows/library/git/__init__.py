"""What the ``bisect`` flow knows of git, of worktrees and of shell commands; it knows nothing of runs and rounds."""
