#!/bin/sh
total=1
while read -r n; do total=$((total + n)); done < "$1"
echo "$total"
