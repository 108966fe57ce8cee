"""Models of Jepsen's that look at answers one by one: bank, counter, sets, queues that are drained, unique ids and others."""
