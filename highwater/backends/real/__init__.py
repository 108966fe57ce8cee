"""Runs on real brokers and a real ZooKeeper, as processes on this machine or as Docker containers.

site.py           what `processes/` and `containers/` each provide: brokers, links, clocks, log directories, ZooKeeper servers
stage.py          plays a plan on a site, whichever of the two it is
faults, fault_*   the nemesis: windows of the schedule become calls on the site
proving.py        probes that show whether a fault acts and whether it is healed
evidence, merge   notes of brokers and commits of ZooKeeper become rows of the history
systems/          what runs on the site: the reference, Apache Kafka; how each is prepared, started and asked
node/             folder, log directories and faked clock of one broker
clients/          librdkafka clients and the workers that perform the workload
zookeeper/        servers, transaction logs, sessions
clean.py          removal of what a killed harness left behind
"""
