#!/usr/bin/env bash
# systemd-analyze verify on a staged copy of the units: ExecStart points at the built daemon, everything else as it is shipped.
# Usage: verify_units.sh SOURCE_DIR DAEMON
set -euo pipefail
source_dir=$1 daemon=$2
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is missing: tools/setup --test installs it (package systemd)" >&2; exit 1; }
[ -x "$daemon" ] || { echo "$daemon is not built" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/units" "$stage/bin"
ln -s "$daemon" "$stage/bin/vigil"
cp "$source_dir/tools/systemd/vigil.socket" "$stage/units/"
sed -e "s|^ExecStart=/usr/local/bin/vigil|ExecStart=$stage/bin/vigil|" \
    -e '/^Documentation=/d' "$source_dir/tools/systemd/vigil.service" >"$stage/units/vigil.service"
grep -q "^ExecStart=$stage/bin/vigil serve" "$stage/units/vigil.service" || { echo "ExecStart was not found in vigil.service" >&2; exit 1; }

# verify answers 0 for an unknown key and only warns: any line about our units is a failure.
status=0
said=$(systemd-analyze verify --man=no --recursive-errors=no "$stage/units/vigil.service" "$stage/units/vigil.socket" 2>&1) || status=$?
ours=$(grep -E 'vigil\.(service|socket)' <<<"$said" || true)
if [ "$status" -ne 0 ] || [ -n "$ours" ]; then
  printf 'systemd-analyze verify (status %s):\n%s\n' "$status" "$said" >&2
  exit 1
fi
# The check must be able to fail: the same copy with a wrong key.
sed -i 's/^KillMode=mixed/KillMod=mixed/' "$stage/units/vigil.service"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$stage/units/vigil.service" 2>&1 || true)
grep -q 'KillMod' <<<"$said" || { echo "systemd-analyze did not notice a wrong key; it said: $said" >&2; exit 1; }
echo "units verified"
