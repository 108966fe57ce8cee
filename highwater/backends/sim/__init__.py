"""The deterministic simulator of a Kafka cluster: one module for each source of nondeterminism.

scheduler, clock, timers    time
network, transport          messages: links and connections; requests and answers
disk                        durability of logs
zk, zk_client               ZooKeeper's server, and its library inside a node
node, clients               processes
faults, fault_*, open_window    the nemesis; one module for each family of faults
simulation, world              the state that all share; a whole run
"""
