"""The cause of a failure in one sentence: what was promised, which step broke the promise, what followed from it."""
