"""The cluster as processes of this machine."""
