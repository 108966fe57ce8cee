"""Log directories as real files: segments, checkpoints, recovery and flushes.

`server.runtime`, `server.lab` and `highwater` import this folder. It imports neither of them: an observer of flushes and the
faults of directories are passed in through `ports`.
"""
