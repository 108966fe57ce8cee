# One ZooKeeper server, from the jars that ship with PySpark. Run it with a configuration file:
#     docker run … highwater-zookeeper /etc/zookeeper/zoo.cfg
ARG BASE=highwater-base
FROM ${BASE}
COPY jars /opt/zookeeper
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["java", "-cp", "/opt/zookeeper/*", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", \
    "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=512", "-Dzookeeper.admin.enableServer=false", \
    "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
