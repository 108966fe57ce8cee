"""Runs on broker processes on loopback, connected through TCP proxies."""
