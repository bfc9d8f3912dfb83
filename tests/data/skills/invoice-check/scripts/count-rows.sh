#!/bin/sh
# Number of positions of an invoice as CSV.
tail -n +2 "$1" | wc -l
