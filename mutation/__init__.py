"""Measure which mistakes in the protocol's code `make test-chaos` would notice (`make mutation`, docs/mutation.md)."""
