"""The machines of `reference` as a program: one broker as a process that speaks Kafka's wire protocol to a real ZooKeeper.

    wire/            Kafka's frames <-> the messages of `reference`
    disk/            log directories as real files
    lab/             what only a harness switches on: notes, failing directories, the flush ledger, power loss
    runtime/         the process: loop, connections, settings, administration
    kazoo_client.py  ZooKeeper through kazoo
    watches.py       which watches a session has set, for kazoo_client

Imports `reference` alone; `highwater` starts it, and a broker's image holds these two packages and what they import.
"""
