#!/bin/sh
# A cluster of tansu 0.6 on loopback: tansu.sh build | up | down | start 111 | kill 111 | terminate 111 | pause 111 | resume 111
# A process of tansu is the only node that it knows, leads every partition, and calls itself 111. So is each one of several on one
# storage: with BROKERS=2 two processes stand behind HAProxy, as the one node 111, and what is done to the node is done to both.
# STORAGE is what `--storage-engine` takes: a file of SQLite if nothing is said, `memory://tansu/`, or a PostgreSQL with its tables.
# Clients find the node at the port BASE; it listens at BASE + 1, so that a proxy of the harness stands between them.
set -eu
: "${DATA:=/tmp/highwater-tansu}" "${BASE:=29290}" "${BROKERS:=1}" "${STORAGE:=sqlite://tansu.db}"
: "${PROGRAM:=$DATA/program/bin/tansu}"
DOOR=$((BASE + 1))

# Each process holds its lock while it lives.
launch() {
    number=1
    while [ "$number" -le "$BROKERS" ]; do
        port=$DOOR
        if [ "$BROKERS" -gt 1 ]; then port=$((DOOR + number)); fi
        run "broker-$number" "$PROGRAM" broker --listener-url "tcp://127.0.0.1:$port" \
            --advertised-listener-url "tcp://127.0.0.1:$BASE" --storage-engine "$STORAGE" --silent
        number=$((number + 1))
        if [ "$number" -le "$BROKERS" ]; then sleep 1; fi # the first one makes the tables, and others would fail meanwhile
    done
    if [ "$BROKERS" -gt 1 ]; then run haproxy haproxy -f "$DATA/haproxy.cfg"; fi
}
run() {
    name=$1 && shift
    if [ -e "$DATA/running/$name" ] && ! flock --nonblock "$DATA/running/$name" true; then return; fi # it runs
    (
        exec 8>"$DATA/running/$name" && flock 8
        cd "$DATA/records"
        exec setsid "$@"
    ) >>"$DATA/$name.log" 2>&1 </dev/null 9>&- &
    echo $! >"$DATA/$name.pid"
}
each() {
    for lock in "$DATA"/running/*; do
        if [ -e "$lock" ] && ! flock --nonblock "$lock" true; then "$@" "$(basename "$lock")"; fi
    done
}
signal() { kill "-$1" "$(cat "$DATA/$2.pid")"; }
wait_for() { flock "$DATA/running/$1" true; }
end() { each signal "$1"; each signal CONT; each wait_for; }
balance() {
    printf 'defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1h\n  timeout server 1h\n'
    printf 'listen tansu\n  bind 127.0.0.1:%s\n  balance roundrobin\n' "$DOOR"
    number=1
    while [ "$number" -le "$BROKERS" ]; do
        printf '  server broker-%s 127.0.0.1:%s check inter 200ms\n' "$number" $((DOOR + number))
        number=$((number + 1))
    done
}

mkdir -p "$DATA/running"
exec 9>"$DATA/hook" && flock 9 # one hook at a time
case "$1" in
build) cargo install --quiet --locked --root "$DATA/program" --features dynostore,libsql,postgres --version 0.6.0 tansu 9>&- ;;
up)
    end KILL
    rm -rf "$DATA/records" && mkdir "$DATA/records"
    balance >"$DATA/haproxy.cfg"
    launch ;;
down) end KILL; rm -rf "$DATA" ;;
start) launch ;;
kill) end KILL ;;
terminate) end TERM ;;
pause) each signal STOP ;;
resume) each signal CONT ;;
*) echo "unknown command $1" >&2; exit 2 ;;
esac
