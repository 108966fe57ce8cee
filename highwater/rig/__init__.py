"""What every backend performs a plan with: the backend port, cluster layout, client bookkeeping, fault targets, evidence.

Imports `plans`; imported by backends, explorer and above.
"""
