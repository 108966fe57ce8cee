"""Statements of the documents, rules of the promise, known mistakes, and the mutants that reproduce them.

`requirements.yaml` and `bugs.yaml` are written by hand. `promise.json` is gathered from docs/promise.md, `trace.json` from the
citations in code and tests.
"""
