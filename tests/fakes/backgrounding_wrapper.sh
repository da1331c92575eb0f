#!/bin/bash
# A wrapper that starts its engine in the background and waits for it. Without <&0 the shell would hand it /dev/null instead of our pipe.
# The engine is the command it is given; without one, the mute script beside it.
engine=("$@")
[ $# -gt 0 ] || engine=("$(dirname "$0")/mute.sh")
"${engine[@]}" <&0 &
wait
