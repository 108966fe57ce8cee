"""One replicated log: its batches, its epoch cache and its producers' sequences. `replica` and `broker` import it."""
