"""What all backends share: the backend interface, cluster layout, client bookkeeping, the nemesis, evidence.

Imports `plans`; imported by backends, explorer and above.
"""
