"""What is known in advance: statements of the documents, bugs of history and the mutants that reproduce them.

`requirements.yaml` and `bugs.yaml` are written by hand; `trace.json` is gathered from the citations in code and tests.
"""
