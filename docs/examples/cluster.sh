#!/bin/sh
# Kafka nodes with KRaft on loopback, by hand: cluster.sh up | down | start N | kill N | terminate N | pause N | resume N
# JARS is the folder of the jars, DATA that of the nodes' files, NODES has the ids; node N listens at the port BASE + N.
set -eu
: "${JARS:=$HOME/.cache/highwater/systems/kafka-4.1.0}" "${DATA:=/tmp/highwater-example}" "${BASE:=29090}" "${NODES:=1 2 3}"
REPLICAS=$(set -- $NODES && if [ $# -lt 3 ]; then echo $#; else echo 3; fi)

voters() { for node in $NODES; do printf '%s@127.0.0.1:%s,' "$node" $((BASE + 10 + node)); done | sed 's/,$//'; }

java_with_jars() { java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$JARS/*" "$@"; }
pid() { cat "$DATA/$1/pid"; }

start() {
    cd "$DATA/$1"
    setsid java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$JARS/*" kafka.Kafka server.properties >>output.log 2>&1 </dev/null &
    echo $! >pid
}

prepare() {
    mkdir -p "$DATA/$1"
    cat >"$DATA/$1/server.properties" <<END
node.id=$1
process.roles=broker,controller
controller.quorum.voters=$(voters)
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$((BASE + $1)),CONTROLLER://127.0.0.1:$((BASE + 10 + $1))
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$DATA/$1/logs
offsets.topic.replication.factor=$REPLICAS
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=$REPLICAS
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=$(((REPLICAS + 1) / 2))
group.initial.rebalance.delay.ms=0
replica.lag.time.max.ms=4000
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
END
    java_with_jars kafka.tools.StorageTool format -t aGlnaHdhdGVyLWtyYWZ0MQ -c "$DATA/$1/server.properties" >"$DATA/$1/format.log"
}

case "$1" in
up) for node in $NODES; do prepare $node; start $node; done ;;
down) for node in $NODES; do kill -9 "$(pid $node)" 2>/dev/null || true; done; rm -rf "$DATA" ;;
start) start "$2" ;;
kill) kill -9 "$(pid "$2")" ;;
terminate) kill "$(pid "$2")" ;;
pause) kill -STOP "$(pid "$2")" ;;
resume) kill -CONT "$(pid "$2")" ;;
*) echo "unknown command $1" >&2; exit 2 ;;
esac
