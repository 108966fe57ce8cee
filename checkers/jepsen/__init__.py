"""Models of Jepsen's that are decided by the answers to reads: bank, long-fork, counter, set-full and CockroachDB's three."""
