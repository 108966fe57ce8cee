"""Workloads: sequential client processes, and the one table that decides between ok, fail and info."""
