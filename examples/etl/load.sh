#!/bin/sh
# Takes a report as JSON on its input, writes it to the file that it is told, as a whole, and says what it wrote.
set -eu
target=$1
cat >"$target.part"
mv "$target.part" "$target"
printf '{"target": "%s", "bytes": %d}\n' "$target" "$(wc -c <"$target")"
