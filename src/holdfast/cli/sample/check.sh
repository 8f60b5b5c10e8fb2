#!/bin/sh
# The numbers add up to 42.
found=$(sh sum.sh numbers.txt)
if [ "$found" = 42 ]; then
  echo "ok: the sum is 42"
else
  echo "wrong: the sum is $found"
  exit 1
fi
