"""What all backends share: the backend port, cluster layout, client bookkeeping, fault targets, evidence.

Imports `plans`; imported by backends, explorer and above.
"""
