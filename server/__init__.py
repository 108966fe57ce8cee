"""One broker as a process: the machines of `reference` with Kafka's wire protocol, log directories and a ZooKeeper client.

    wire/            Kafka's frames <-> the messages of `reference`
    disk/            log directories as real files
    lab/             what only a harness switches on: notes, failing directories, the flush ledger, power loss
    runtime/         the process: event loop, connections, settings, administration
    kazoo_client.py  ZooKeeper through kazoo
    watches.py       which watches a session has set, for kazoo_client

`server` imports only `reference`. `highwater` and `bench` import `server`. A broker's image needs `server`, `reference` and the
third-party packages that they import.
"""
