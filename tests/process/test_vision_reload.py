"""SIGHUP and pictures: switched on and off, another model with another vision child, what cannot be opened."""
import json
import os
import shutil
import signal

from client import SCALE, await_until, check
from harness import MODEL, check_error
from registry import test
from test_vision import Eyes


@test("reload_switches_pictures_on_and_off")
def reload(case):
    eyes = Eyes(case, exe=None, wait=None)
    daemon, settings = eyes.daemon, eyes.daemon.config.pop("vision")
    daemon.put("fake_vision.py", "vision")
    daemon.write_config()
    daemon.start()

    def reload(vision):
        daemon.config["vision"] = vision
        daemon.write_config()
        daemon.signal(signal.SIGHUP)
    check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 400, "image_invalid", "takes no images")
    reload(settings)
    eyes.await_state("unloaded")
    eyes.answered(eyes.chat(b"cat"))
    pid = eyes.status()["pid"]
    reload({**settings, "image_bytes": 2})
    await_until(lambda: eyes.chat(b"cat").wait_end(5 * SCALE).status == 400, 5 * SCALE, "a limit holds for new requests")
    reload({**settings, "args": ["another"], "encode_s": 1})
    eyes.await_state("unloaded")  # stopped since nothing is with it
    eyes.script(jobs=[[["silent"]]])
    check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 503, "vision_unavailable", "1 s (vision.encode_s)")
    check(json.loads(eyes.log("args")[-1]) == ["another"] and eyes.status()["pid"] != pid, "the next start has the new arguments", eyes.log("args"))
    reload({**settings, "exe": "./nowhere"})
    await_until(lambda: "nowhere" in daemon.stderr(), 5 * SCALE, "a program that is not there is logged")
    eyes.script()
    await_until(lambda: eyes.chat(b"dog").wait_end(5 * SCALE).status == 200, 5 * SCALE, "and changes nothing")
    reload({})
    eyes.await_state("absent")
    await_until(lambda: not eyes.children(), 5 * SCALE, "its child is stopped", 0.02)
    check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 400, "image_invalid", "takes no images")
    reload(settings)
    eyes.await_state("unloaded")
    eyes.well()
    eyes.end()


@test("reload_with_another_model_changes_both_at_the_engines_next_start")
def reload_pair(case):
    """Rows of one projector are nothing to another model: until the engine takes its new one, pictures are encoded for the old one."""
    eyes = Eyes(case, vision={"args": ["old"]})
    daemon = eyes.daemon
    eyes.answered(eyes.chat(b"cat"))
    pid = eyes.status()["pid"]
    other = os.path.join(case.folder, "other.gguf")
    shutil.copy(MODEL, other)
    daemon.config["model"] = other
    daemon.config["vision"] = {**daemon.config["vision"], "args": ["new"], "image_bytes": 5}
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    await_until(lambda: eyes.chat(b"large!").wait_end(5 * SCALE).status == 400, 5 * SCALE, "a limit holds at once")
    for picture in (b"dog", b"elk"):
        eyes.answered(eyes.chat(picture))
    check(eyes.status()["pid"] == pid and len(eyes.log("start")) == 1, "the old one goes on", eyes.status())
    daemon.request("POST", "/v1/unload", {}).wait_end(5 * SCALE)
    eyes.answered(eyes.chat(b"fox"))
    check([json.loads(args) for args in eyes.log("args")] == [["old"], ["new"]], "the new one comes with the engine's new model", eyes.log("args"))
    eyes.well()
    eyes.end()


@test("reload_with_a_vision_log_that_cannot_be_opened_changes_nothing")
def reload_bad_log(case):
    eyes = Eyes(case, exe=None, wait=None)
    daemon, settings = eyes.daemon, eyes.daemon.config.pop("vision")
    daemon.put("fake_vision.py", "vision")
    daemon.write_config()
    daemon.start()
    daemon.config["vision"] = {**settings, "log": os.path.join(case.folder, "nowhere", "vision.log")}
    daemon.config["aliases"] = ["another-name"]
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    await_until(lambda: "nothing was changed" in daemon.stderr(), 5 * SCALE, "it is logged")
    check("vision.log: cannot open" in daemon.stderr(), "with the key", daemon.stderr()[-500:])
    check(eyes.status()["state"] == "absent", "the status answers", eyes.status())
    names = [one["id"] for one in daemon.request("GET", "/v1/models").wait_end(5 * SCALE).json()["data"]]
    check("another-name" not in names, "nothing else of it holds either", names)
    check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 400, "image_invalid", "takes no images")
    daemon.config["vision"] = settings
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    eyes.await_state("unloaded")
    eyes.well()
    eyes.end()
