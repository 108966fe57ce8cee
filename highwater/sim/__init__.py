"""The deterministic simulator: one module for each kind of nondeterminism, wired together by `world`.

scheduler, clock, timers    time
network, transport          messages: links and connections; requests and answers
disk                        what survives
zk, zk_client               ZooKeeper's server, and its library inside a node
node, clients               processes
cuts, targets, faults       the nemesis
evidence                    what goes into the history
stage, world                what all share; a whole run
"""
