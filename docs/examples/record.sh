#!/bin/sh
# Uses a file as a log and records what its clients saw: docs/your-own-system.md. `record.sh lossy` loses an acknowledged record.
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
began=$(date +%s%N)

say() { # process, type, f, further fields
    echo "{\"process\": $1, \"type\": \"$2\", \"f\": \"$3\", $4\"time\": $(($(date +%s%N) - began))}"
}

echo '{"manifest": {"system": "a file 1.0", "model": "log"}}'
for value in a b c; do
    say 0 invoke produce "\"values\": [\"$value\"], "
    echo "$value" >>"$log"
    say 0 ok produce "\"offsets\": [$(($(wc -l <"$log") - 1))], "
done
[ "${1:-}" != lossy ] || sed -i '$d' "$log"

echo "{\"mark\": \"final-reads\", \"time\": $(($(date +%s%N) - began))}"
say 1 invoke latest ""
say 1 ok latest "\"offset\": $(wc -l <"$log"), "
say 1 invoke poll '"offset": 0, '
say 1 ok poll "\"records\": [$(awk '{printf "%s[%d, \"%s\"]", sep, NR - 1, $0; sep = ", "}' "$log")], "
