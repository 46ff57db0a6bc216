"""Charge, ship, mail: what a user writes for it in each system, and nothing else."""
