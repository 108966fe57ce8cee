"""Edits that break the code on purpose, and what must notice each: tests, a plan, or `make test-chaos` (docs/mutation.md)."""
