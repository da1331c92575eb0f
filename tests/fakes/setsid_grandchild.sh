#!/bin/bash
# Ready, then mute; before that it leaves a grandchild that has its own session, no living parent, no interest in TERM, and our stdout.
(setsid bash -c 'trap "" TERM INT HUP; while :; do sleep 3600; done' &)
printf 'READY 32768 stop\n'
trap 'exit 0' TERM INT
while IFS= read -r _; do :; done
