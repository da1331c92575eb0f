#!/bin/bash
# ready, then mute
printf 'READY 32768 stop\n'
trap 'exit 0' TERM INT
while IFS= read -r _; do :; done
