#!/bin/sh
# Prints a table as a JSON list: columns that hold only numbers become numbers.
set -eu
exec awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i; columns = NF; printf "["; next }
    {
        printf "%s{", (NR > 2 ? "," : "")
        for (i = 1; i <= columns; i++) {
            value = ($i ~ /^-?[0-9]+(\.[0-9]+)?$/) ? $i : "\"" $i "\""
            printf "%s\"%s\":%s", (i > 1 ? "," : ""), name[i], value
        }
        printf "}"
    }
    END { print "]" }
' "$(dirname "$0")/data/$1.csv"
