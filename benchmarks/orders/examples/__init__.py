"""Charge, ship, mail: the user's code in each system, and nothing else."""
