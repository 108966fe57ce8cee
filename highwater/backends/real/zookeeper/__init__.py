"""ZooKeeper of a run: servers on this machine, their transaction logs, the harness's own session, and ending others' sessions."""
