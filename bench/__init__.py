"""Benchmarks (`make bench…`) and the port fuzzer. Not in the wheel; imported by tests alone."""
