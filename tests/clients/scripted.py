"""The daemon with an engine that plays a scripted model, for client libraries and agents; and what their processes leave behind."""
import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "process"))

import procs  # noqa: E402
from client import SCALE, Failure, await_until  # noqa: E402
from harness import MODEL, clean_environment  # noqa: E402


def serve(case, rules):
    """A daemon whose model answers by these rules (see scripted_model.py)."""
    env = {"FAKE_TESTS": os.path.join(HERE, "..", "process"), "FAKE_MODEL": MODEL}
    daemon = case.daemon(os.path.join(HERE, "scripted_model.py"), env=env, wait=None, engine={"start": "eager", "stop_s": 5},
                         config={"model": MODEL, "model_name": "test-model", "chat_template_file": os.path.join(HERE, "chat_template.jinja")})
    with open(daemon.fake.path("rules.json"), "w", encoding="utf-8") as file:
        json.dump(rules, file)
    daemon.start()
    daemon.await_engine("ready", 60)
    return daemon


def noted(daemon, name):
    try:
        with open(daemon.fake.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def environment(work, home, **more):
    """A home of its own and nothing of ours; the packages' programs come first."""
    kept = {name: value for name, value in clean_environment().items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    return {**kept, "PATH": os.path.join(work, "node_modules", ".bin") + ":" + kept["PATH"], "HOME": home, "XDG_CONFIG_HOME": os.path.join(home, ".config"),
            "XDG_DATA_HOME": os.path.join(home, ".local", "share"), "XDG_CACHE_HOME": os.path.join(home, ".cache"),
            "XDG_STATE_HOME": os.path.join(home, ".local", "state"), "NO_COLOR": "1", "CI": "1", **more}


def end_marked(mark):
    """Ends by their ids whatever carries the mark in its environment: agents leave daemons of their own behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in procs.marked(mark):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        try:
            return await_until(lambda: not procs.marked(mark), 2 * SCALE, "they have ended", 0.05)
        except Failure:
            continue
