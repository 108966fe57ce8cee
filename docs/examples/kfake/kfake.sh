#!/bin/sh
# A cluster of kfake on loopback: kfake.sh build | up | down | start N | kill N | terminate N | pause N | resume N
# PROGRAM is what `build` makes, DATA the folder of its files, NODES how many nodes it has; node N listens at the port BASE + N.
# All nodes are one process with one folder. `kill` kills the process and starts it again without this node, `terminate` takes the node
# out of the process, `start` ends the process orderly and starts it again with the node, `pause` stops all nodes.
# With CUT=1 each kill cuts the stored records in half: a mistake to be found.
set -eu
: "${DATA:=/tmp/highwater-kfake}" "${BASE:=29190}" "${NODES:=3}" "${CUT:=}"
: "${PROGRAM:=$DATA/kfake}"

# The process holds the lock `running` while it lives; a new one waits for it.
launch() {
    if [ "$(ls "$DATA/without" | wc -l)" = "$NODES" ]; then return; fi
    (
        exec 8>"$DATA/running" && flock 8
        exec setsid "$PROGRAM" -nodes "$NODES" -port "$BASE" -dir "$DATA/records" -without "$DATA/without"
    ) >>"$DATA/output.log" 2>&1 </dev/null 9>&- &
    echo $! >"$DATA/pid"
}
signal() { if ! flock --nonblock "$DATA/running" true; then kill "-$1" "$(cat "$DATA/pid")"; fi; }
end() { signal "$1"; signal CONT; flock "$DATA/running" true; }
cut_records() {
    find "$DATA/records" -name '*.dat' | while read -r file; do truncate -s $(($(stat -c %s "$file") / 2)) "$file"; done
}

if [ "$1" = build ] || [ "$1" = up ]; then mkdir -p "$DATA/without"; fi
exec 9>"$DATA/hook" && flock 9 # one hook at a time
case "$1" in
build) cd "$(dirname "$0")" && go build -o "$PROGRAM" . 9>&- ;;
up) end KILL; rm -rf "$DATA/records" "$DATA/without"/*; launch ;;
down) end KILL; rm -rf "$DATA" ;;
start) rm -f "$DATA/without/$2"; end TERM; launch ;;
kill)
    touch "$DATA/without/$2"
    end KILL
    if [ "$CUT" ]; then cut_records; fi
    launch ;;
terminate)
    touch "$DATA/without/$2"
    if [ "$(ls "$DATA/without" | wc -l)" = "$NODES" ]; then end TERM; else signal HUP; fi ;;
pause) signal STOP ;;
resume) signal CONT ;;
*) echo "unknown command $1" >&2; exit 2 ;;
esac
