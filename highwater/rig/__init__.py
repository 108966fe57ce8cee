"""Shared by all backends: the backend port, cluster layout, client bookkeeping, the nemesis, evidence.

Imports `plans`; imported by backends, explorer and above.
"""
