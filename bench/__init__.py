"""Benchmarks (`make bench…`) and the port fuzzer. Not in the wheel; imports everything, imported by tests alone."""
