"""The runs of a store as web pages on this machine: read-only, live while campaigns run."""
