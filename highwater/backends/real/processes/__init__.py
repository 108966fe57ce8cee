"""A site of processes on loopback, connected through TCP proxies."""
