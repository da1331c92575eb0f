#!/usr/bin/env python3
"""Installs the packages of package.json into the work folder with npm, once: install.py --work FOLDER. Without node or npm it fails, and with
it every test that needs a client."""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 900  # the agents are large
# opencode's own package takes the program for every kind of processor, 180 MB each.
OPENCODE = {"opencode-linux-" + {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "x64"): "1.18.33"}


def installed(work, name):
    try:
        with open(os.path.join(work, "node_modules", name, "package.json"), encoding="utf-8") as file:
            return json.load(file)["version"]
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    work = parser.parse_args().work
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            print(f"{tool} is missing: tools/setup --test installs it")
            return 1
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
        package = json.load(file)
    wanted = package["dependencies"]
    wanted.update(OPENCODE)
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "package.json"), "w", encoding="utf-8") as file:
        json.dump(package, file)
    if any(installed(work, name) != version for name, version in wanted.items()):
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--loglevel=error"],
                       cwd=work, check=True, timeout=LIMIT_S)
    missing = [name for name, version in wanted.items() if installed(work, name) != version]
    if missing:
        print(f"npm did not install {missing}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
