"""A cluster that a user brings: addresses and commands from a file, and nothing else."""
