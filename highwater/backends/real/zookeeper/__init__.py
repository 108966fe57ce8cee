"""A real ZooKeeper for a run: servers, their transaction logs, the harness's own session, and ending others' sessions."""
