"""The vision child: pictures in chat requests, what they get for whatever the child does, and that text requests never wait for it (seed S6, S7;
cases E7, E10). The engine is a fake; its image token is a control token that no prompt of these tests holds otherwise."""
import base64
import glob
import json
import os
import signal
import socket
import struct
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import FAKES, MODEL, check_answer, check_error
from registry import test

IMAGE_TOKEN, IMAGE_ID = "</s>", "2"


class Eyes:
    """A daemon with a vision child from tests/fakes, its script and log, and the place of its pictures."""

    def __init__(self, case, exe="fake_vision.py", vision=None, place="pictures", script=None, **options):
        self.case = case
        self.folder = os.path.join(case.folder, f"vision-{len(case.daemons)}")
        self.place = os.path.join(case.folder, place)
        for folder in (self.folder, self.place):
            os.makedirs(folder, exist_ok=True)
        self.script(**(script or {}))
        settings = {"exe": "./vision", "image_token": IMAGE_TOKEN, "stop_s": 3, "cache_bytes": 0, **(vision or {})}
        config = {**options.pop("config", {}), "vision": settings}
        env = {**options.pop("env", {}), "FAKE_VISION_DIR": self.folder, "XDG_RUNTIME_DIR": self.place}
        wait = options.pop("wait", True)
        self.daemon = case.daemon(config=config, env=env, wait=None, **options)
        if exe:
            self.daemon.put(exe, "vision")
        if wait is not None:
            self.daemon.start(wait)

    def script(self, **fields):
        jobs = os.path.join(self.folder, "jobs")
        if os.path.exists(jobs):
            os.unlink(jobs)
        with open(os.path.join(self.folder, "script.new"), "w", encoding="utf-8") as file:
            json.dump(fields, file)
        os.rename(os.path.join(self.folder, "script.new"), os.path.join(self.folder, "script.json"))

    def log(self, what, text=""):
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
                lines = [line.rstrip("\n").split(" ", 3) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [line[3] for line in lines if line[2] == what and line[3].startswith(text)]

    def encs(self):
        return self.log("read", "ENC")

    def chat(self, *pictures, stream=False, text="what is it?", before=(), **fields):
        parts = [{"type": "text", "text": text}, *[picture_part(picture) for picture in pictures]]
        body = {"messages": [*before, {"role": "user", "content": parts}], "max_tokens": 64, "stream": stream, **fields}
        return self.daemon.request("POST", "/v1/chat/completions", body)

    def answered(self, conn, limit_s=10):
        check_answer(conn.wait_end(limit_s * SCALE), self.case.letters.text(3))

    def status(self):
        return self.daemon.status()["vision"]

    def await_state(self, state, limit_s=5):
        return await_until(lambda: (s := self.status())["state"] == state and s, limit_s * SCALE, f"vision state {state}: {self.status()}", 0.02)

    def children(self):
        return {pid: v["VIGIL_CHILD"] for pid, v in self.daemon.children().items() if ".vision." in v["VIGIL_CHILD"]}

    def await_encs(self, number):
        await_until(lambda: len(self.encs()) == number, 5 * SCALE, f"{number} ENC, not {self.encs()}")

    def files(self):
        return sorted(os.path.relpath(path, self.place) for path in glob.glob(glob.escape(self.place) + "/*/*"))

    def await_no_files(self):
        await_until(lambda: not self.files(), 2 * SCALE, f"no files are left: {self.files()}", 0.02)

    def well(self):
        """A picture and a text are answered, nothing is open, no file is left, no zombie."""
        self.daemon.fake.script(jobs=[[["answer", 3, 0]]])
        self.script()
        end = time.monotonic() + 15 * SCALE
        while (conn := self.chat(b"well").wait_end(10 * SCALE)).status != 200:
            check(conn.status == 503 and "retry-after" in conn.headers, "a picture is refused for a while at most", conn.status, bytes(conn.body))
            check(time.monotonic() < end, "a picture is answered again", bytes(conn.body))
            run_for(0.1)
        self.answered(conn)
        self.answered(self.daemon.chat())
        await_until(lambda: self.daemon.idle(self.daemon.status()), 3 * SCALE, f"idle: {self.daemon.status()}", 0.02)
        self.await_no_files()
        check(not procs.zombies_of(self.daemon.pid), "no zombies")
        check(set(self.children()) == {self.status()["pid"]}, "one vision child", self.children(), self.status())

    def end(self):
        """TERM: everything goes, the folder too."""
        self.daemon.stop()
        check(not os.listdir(self.place), "the folder is gone", os.listdir(self.place))


def picture_part(data):
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode()}}


def record(rows, value, width=4):
    """What fake_vision.py writes for a picture that begins with this byte."""
    values = [value + i // width / 8 for i in range(rows * width)]
    return b"SVE1" + struct.pack("<4i", rows, rows, 1, width) + struct.pack(f"<{len(values)}f", *values)


@test("pictures_reach_the_engine_in_order")
def order(case):
    eyes = Eyes(case)
    eyes.answered(eyes.chat(b"cat", b"\x05\x06"))
    check(eyes.log("picture") == [b"cat".hex(), b"\x05\x06".hex()], "the child read both, in order", eyes.log("picture"))
    check(eyes.log("start")[0].endswith(".vision.1"), "its mark", eyes.log("start"))
    line = eyes.daemon.fake.generations()[0][2]
    ids = line.split(" ")[-1].split(",")
    check(line.startswith("GENI ") and ids.count(IMAGE_ID) == 3 + 2, "a token for each row", line)
    file = bytes.fromhex(eyes.daemon.fake.log("file")[0][2])
    check(file == record(3, ord("c")) + record(2, 5), "the records, one behind the other", file)
    eyes.daemon.fake.script(jobs=[[["answer", 3, 0]]])
    usage = eyes.chat(b"cat").wait_end(5 * SCALE).json()["usage"]
    alone = eyes.daemon.chat(text="what is it?").wait_end(5 * SCALE).json()["usage"]
    check(usage["prompt_tokens"] >= alone["prompt_tokens"] + 3, "image tokens count", usage, alone)
    eyes.well()
    eyes.end()


@test("pictures_of_earlier_turns_count")
def earlier(case):
    eyes = Eyes(case)
    before = [{"role": "user", "content": [picture_part(b"a"), {"type": "text", "text": "and"}]}, {"role": "assistant", "content": "yes"}]
    eyes.answered(eyes.chat(b"bb", before=before))
    check(eyes.log("picture") == [b"a".hex(), b"bb".hex()], "in the order of the turns", eyes.log("picture"))
    eyes.answered(eyes.daemon.request("POST", "/v1/chat/completions", {"messages": [*before, {"role": "user", "content": "so?"}], "max_tokens": 9}))
    check(len(eyes.encs()) == 3, "a picture in an earlier turn alone too", eyes.encs())
    eyes.end()


@test("paths_with_blanks_are_percent_encoded")
def paths(case):
    eyes = Eyes(case, place="my pictures 100%\ttab")
    eyes.answered(eyes.chat(b"cat", b"dog"))
    words = eyes.encs()[0].split(" ")
    check(len(words) == 3 and "my%20pictures%20100%25%09tab" in words[1] and "my%20pictures%20100%25%09tab" in words[2], "three words", words)
    eyes.answered(eyes.chat(b"cat"))
    geni = eyes.daemon.fake.log("read", "GENI")
    check(len(geni) == 2 and all("my%20pictures%20100%25%09tab" in line[2] for line in geni), "in GENI too", geni)
    mode = [os.stat(path).st_mode & 0o777 for path in glob.glob(glob.escape(eyes.place) + "/*")]
    check(mode == [0o700], "a private folder", mode)
    eyes.well()
    eyes.end()


@test("S6_vision_never_ready_fails_only_picture_requests")
def never_ready(case):
    eyes = Eyes(case, "never_ready.sh", vision={"ready_s": 2})
    sent = time.monotonic()
    plain, stream = eyes.chat(b"cat"), eyes.chat(b"dog", stream=True)
    await_until(lambda: len(eyes.children()) == 2, 2 * SCALE, "the script and its sleep run")
    first = set(eyes.children())
    text = eyes.daemon.chat().wait_end(2 * SCALE)
    check_answer(text, case.letters.text(3))
    check(eyes.status()["state"] == "starting", "answered while the vision child loads", eyes.status())
    phases = {item["phase"] for item in eyes.daemon.status()["active"]}
    check(phases == {"encoding"}, "the phase of who waits", eyes.daemon.status())
    for conn in (plain, stream):
        conn.wait_end(2 + SCALE)
        check_error(conn, 503, "vision_unavailable", "vision child", "READY", "2 s", "vision.ready_s")
        check(1.9 < conn.complete_at - sent < 2 + 0.5 * SCALE, "at the limit", conn.complete_at - sent)
    await_until(lambda: not first & set(procs.marked(eyes.daemon.mark)), SCALE, "the script and its sleep are gone", 0.02)
    status = eyes.await_state("failed")
    check("vision.ready_s" in status["reason"] and status["pid"] == 0, "the status says why", status)
    check(eyes.daemon.status()["engine"]["state"] == "ready", "the engine is untouched")
    eyes.daemon.put("fake_vision.py", "vision")
    eyes.answered(eyes.chat(b"cat"))
    check(eyes.status()["generation"] == 2, "the next picture starts another", eyes.status())
    eyes.well()
    eyes.end()


@test("S6_grandchild_that_holds_the_pipe")
def never_ready_grandchild(case):
    eyes = Eyes(case, vision={"ready_s": 1, "stop_s": 1}, script=dict(load=[["grandchild"]], ready=False, ignore_term=True))
    conn = eyes.chat(b"cat").wait_end(1 + SCALE)
    check_error(conn, 503, "vision_unavailable", "vision.ready_s")
    await_until(lambda: not eyes.children(), 1 + 2 * SCALE, f"all of it is gone: {eyes.children()}", 0.02)
    eyes.well()
    eyes.end()


@test("S7_vision_silent_in_enc")
def silent(case):
    eyes = Eyes(case, vision={"encode_s": 1.5})
    eyes.script(jobs=[["INFO still=here", ["silent"]], [["encode"]]])
    first = eyes.chat(b"cat")
    eyes.await_encs(1)
    waiting = eyes.chat(b"dog", stream=True)
    first.wait_end(1.5 + SCALE)
    check_error(first, 503, "vision_unavailable", "silent", "messages[0].content[1]", "1.5 s", "vision.encode_s")
    check(first.took_s > 1.4, "not before", first.took_s)
    eyes.answered(waiting)
    check(eyes.status()["generation"] == 2, "who waited got the next child", eyes.status())
    await_until(lambda: set(eyes.children()) == {eyes.status()["pid"]}, 2 * SCALE, f"the first is gone: {eyes.children()}", 0.02)
    eyes.well()
    eyes.end()


@test("text_goes_on_while_vision_hangs")
def text_goes_on(case):
    eyes = Eyes(case, vision={"encode_s": 60})
    eyes.script(jobs=[[["silent"]]])
    eyes.answered(eyes.daemon.chat())
    hanging = [eyes.chat(b"cat", stream=i % 2 == 0) for i in range(3)]
    eyes.await_encs(1)
    for i in range(10):
        text = eyes.daemon.chat(stream=i % 2 == 0, text=f"{i}").wait_end(2 * SCALE)
        check_answer(text, case.letters.text(3))
        check(text.took_s < 0.5 * SCALE, "at once", text.took_s)
    status = eyes.daemon.status()
    check([item["phase"] for item in status["active"]] == ["encoding"] * 3 and status["requests"]["running"] == 0, "they still wait", status)
    check(status["totals"]["served"] == 11, "and everything else was served", status)
    for conn in hanging:
        conn.close()
    await_until(lambda: not eyes.daemon.status()["active"], 2 * SCALE, "who left is gone at once")
    eyes.end()


@test("vision_err_names_the_part")
def err(case):
    eyes = Eyes(case)
    eyes.script(jobs=[[["encode"]], ["ERR the picture ends in the middle"], ["ERR"], [["encode"]]])
    conn = eyes.chat(b"cat", b"dog").wait_end(5 * SCALE)
    error = check_error(conn, 400, "image_invalid", "messages[0].content[2]", "the picture ends in the middle")
    check(error["param"] == "messages[0].content[2]", "the param", error)
    check_error(eyes.chat(b"cat", stream=True).wait_end(5 * SCALE), 400, "image_invalid", "messages[0].content[1]", "no reason")
    check(eyes.status()["state"] == "ready" and eyes.status()["generation"] == 1, "the child is not blamed", eyes.status())
    eyes.script(jobs=[["ERR out of memory", ["stderr", "bye"], ["exit", 3]], [["encode"]]])
    first, second = eyes.chat(b"cat"), eyes.chat(b"dog")
    check_error(first.wait_end(5 * SCALE), 400, "image_invalid", "out of memory", "status 3", "bye")
    eyes.answered(second)  # the next child's
    eyes.well()
    eyes.end()


@test("vision_crash_in_enc")
def crash(case):
    eyes = Eyes(case)
    eyes.script(jobs=[[["stderr", "segment fault ahead"], ["die", 11]], [["encode"]]])
    first, second = eyes.chat(b"cat"), eyes.chat(b"dog")
    check_error(first.wait_end(5 * SCALE), 503, "vision_unavailable", "messages[0].content[1]", "SIGSEGV", "segment fault ahead")
    eyes.answered(second)
    eyes.script(jobs=[[["close_stdout"], ["silent"]]])
    check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 503, "vision_unavailable", "closed its output")
    eyes.well()
    eyes.end()


@test("a_picture_that_kills_vision_twice_is_refused")
def killer(case):
    eyes = Eyes(case, engine={"backoff_first_ms": 100})
    eyes.script(jobs=[[["die", 11]], [["encode"]], [["die", 11]], [["encode"]]])
    check_error(eyes.chat(b"evil").wait_end(5 * SCALE), 503, "vision_unavailable", "SIGSEGV")
    eyes.answered(eyes.chat(b"cat"))
    check_error(eyes.chat(b"evil", text="again").wait_end(5 * SCALE), 503, "vision_unavailable", "SIGSEGV")
    starts = len(eyes.log("start"))
    check_error(eyes.chat(b"dog", b"evil").wait_end(SCALE), 400, "image_invalid", "messages[0].content[2]", "died 2 times")
    check(len(eyes.log("start")) == starts, "nothing was started for it", eyes.log("start"))
    eyes.well()
    eyes.end()


@test("pictures_wait_for_their_turn_no_longer_than_queue_wait_s")
def wait_limit(case):
    eyes = Eyes(case, config={"queue": {"wait_s": 1}}, script={"jobs": [[["silent"]]]})
    first = eyes.chat(b"cat")
    eyes.await_encs(1)
    check_error(eyes.chat(b"dog").wait_end(5 * SCALE), 503, "queue_timeout", "queue.wait_s", "pictures")
    check(eyes.daemon.status()["requests"]["running"] == 0 and len(eyes.daemon.status()["active"]) == 1, "the first has had its turn", eyes.daemon.status())
    first.close()
    eyes.script()
    os.kill(eyes.status()["pid"], signal.SIGKILL)
    eyes.well()
    eyes.end()


@test("vision_err_that_is_not_the_pictures_fault")
def own_fault(case):
    eyes = Eyes(case, script={"jobs": [["ERR unavailable: its embeddings cannot be written: No space left on device"], [["encode"]]]})
    error = check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 503, "vision_unavailable", "messages[0].content[1]", "No space left on device")
    check(not error.get("param") and "unavailable:" not in error["message"], "nobody's part", error)
    eyes.answered(eyes.chat(b"cat"))
    check(eyes.status()["generation"] == 1, "the same child", eyes.status())
    eyes.end()


@test("vision_wrong_records")
def wrong_records(case):
    good = record(2, 7).decode("latin-1")
    wrong = {
        "not there": ["OK 2 2 1 1"],
        "SVE1": [["record", "PNG1" + good[4:]], "OK 2 2 1 1"],
        "header": [["record", "SVE1"], "OK 2 2 1 1"],
        "READY and OK said 3 rows": [["record", good], "OK 3 3 1 1"],
        "(1 x 2)": [["record", good], "OK 2 1 2 1"],
        "bytes": [["record", good[:-4]], "OK 2 2 1 1"],
        "52 take": [["record", good + "x"], "OK 2 2 1 1"],
        "width 5": [["record", (b"SVE1" + struct.pack("<4i", 2, 2, 1, 5) + bytes(40)).decode("latin-1")], "OK 2 2 1 1"],
        "not finite": [["floats", 2, float("nan")], "OK 2 2 1 1"],
        "65536": ["OK 70000 2 1 1"],
    }
    eyes = Eyes(case)
    for words, steps in wrong.items():
        eyes.script(jobs=[steps])
        check_error(eyes.chat(b"cat").wait_end(5 * SCALE), 503, "vision_unavailable", "messages[0].content[1]",
                    words if words != "52 take" else "53 bytes")
    eyes.script(jobs=[["OK 0 0 0 1", "gibberish", "OK a b c d", "\x00", ["encode"]]])
    eyes.answered(eyes.chat(b"cat"))  # malformed lines are no answer
    check(eyes.status()["generation"] == 1 + len(wrong), "each was replaced, since it may be out of step; this one lives on", eyes.status())
    check(not eyes.daemon.fake.log("read", "GENI")[1:], "the engine never saw one", eyes.daemon.fake.log("read"))
    eyes.well()
    eyes.end()


@test("vision_that_cannot_start")
def cannot_start(case):
    path = os.path.join(case.folder, "broken")
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/nowhere/no-such-interpreter\n")
    eyes = Eyes(case, path)
    check_error(eyes.chat(b"cat").wait_end(3 * SCALE), 503, "vision_unavailable", "could not be executed", "vision.exe")
    eyes.daemon.put("fake_vision.py", "vision")
    eyes.script(load=[["stderr", "no such projector"], ["exit", 7]])
    check_error(eyes.chat(b"cat").wait_end(3 * SCALE), 503, "vision_unavailable", "status 7", "no such projector")
    eyes.well()
    eyes.script(load=["ERR wrong projector"])
    os.kill(eyes.status()["pid"], signal.SIGKILL)
    eyes.await_state("failed")
    check_error(eyes.chat(b"cat").wait_end(3 * SCALE), 503, "vision_unavailable", "wrong projector")
    eyes.answered(eyes.daemon.chat())
    eyes.end()


@test("vision_back_off_answers_at_once")
def back_off(case):
    eyes = Eyes(case, engine={"backoff_first_ms": 60000, "backoff_max_s": 60})
    eyes.script(jobs=[[["die", 9]]])
    for picture in (b"ant", b"bee"):
        check_error(eyes.chat(picture).wait_end(5 * SCALE), 503, "vision_unavailable", "SIGKILL")
    eyes.await_state("backoff")
    for stream in (False, True):
        refused = eyes.chat(b"cat", stream=stream).wait_end(SCALE)
        check_error(refused, 503, "vision_unavailable", "back-off", "engine.backoff_first_ms")
        check(refused.took_s < 0.5 * SCALE and 30 <= float(refused.headers["retry-after"]) <= 76, "at once, with the time left", refused.headers)
    check(len(eyes.log("start")) == 2, "no third start", eyes.log("start"))
    eyes.answered(eyes.daemon.chat())
    eyes.end()


@test("leaving_while_encoding")
def leaving(case):
    eyes = Eyes(case)
    eyes.script(jobs=[[["sleep", 0.7], ["encode"]], [["encode"]]])
    for how in ("close", "reset", "half_close"):
        eyes.script(jobs=[[["sleep", 0.7], ["encode"]], [["encode"]]])
        before = len(eyes.encs())
        gone = eyes.chat(b"cat", b"bird")
        eyes.await_encs(before + 1)
        getattr(gone, how)()
        await_until(lambda: not eyes.daemon.status()["active"], SCALE, "it is gone at once")
        eyes.answered(eyes.chat(b"dog"))
        check(eyes.log("picture")[-2:] == [b"cat".hex(), b"dog".hex()], "its second picture was never sent", eyes.log("picture"))
    check(eyes.status()["generation"] == 1, "nobody was killed for it", eyes.status())
    check(eyes.daemon.status()["totals"]["cancelled"] == 3, "counted as cancelled", eyes.daemon.status())
    check(len(eyes.daemon.fake.generations()) == 3, "the engine never saw them", eyes.daemon.fake.log("read"))
    eyes.script(jobs=[[["sleep", 0.7], ["encode"]], [["encode"]]])
    cancelled = eyes.daemon.request("POST", "/v1/chat/completions",
                                    {"messages": [{"role": "user", "content": [picture_part(b"x")]}]}, {"X-Request-Id": "to-cancel"})
    await_until(lambda: eyes.log("picture")[-1] == b"x".hex(), 5 * SCALE, "the child has it")
    check(eyes.daemon.request("DELETE", "/v1/requests/to-cancel").wait_end(SCALE).status == 200, "cancelled by the API")
    check(cancelled.wait_end(SCALE).status == 499, "told so", cancelled.status)
    eyes.well()
    eyes.end()


@test("leaving_while_the_vision_child_hangs")
def leaving_hung(case):
    eyes = Eyes(case, vision={"encode_s": 1.5})
    eyes.script(jobs=[[["silent"]], [["encode"]]])
    gone = eyes.chat(b"cat")
    eyes.await_encs(1)
    gone.close()
    started = time.monotonic()
    eyes.answered(eyes.chat(b"dog"), 1.5 + 3)
    check(time.monotonic() - started < 1.5 + 2 * SCALE, "held for no longer than encode_s")
    eyes.well()
    eyes.end()


@test("stop_while_encoding")
def stop_while_encoding(case):
    eyes = Eyes(case, vision={"stop_s": 1.5}, script=dict(ignore_term=True, load=[["grandchild"]], jobs=[[["silent"]]]), engine={"stop_s": 3})
    plain, stream = eyes.chat(b"cat"), eyes.chat(b"dog", stream=True)
    eyes.await_encs(1)
    victims = eyes.daemon.everything()
    check(len(victims) >= 4, "daemon, keeper, child, grandchild", victims)
    stopped = time.monotonic()
    eyes.daemon.signal(signal.SIGTERM)
    for conn in (plain, stream):
        check_error(conn.wait_end(0.5 * SCALE), 503, "shutting_down")
    check(eyes.daemon.await_exit(1.5 + SCALE) == 0, "exit status")
    check(time.monotonic() - stopped > 1.4, "it had its stop_s")
    await_until(lambda: not eyes.daemon.everything(), 2, f"nothing is left: {eyes.daemon.everything()}", 0.02)
    check(not os.listdir(eyes.place), "the folder is gone", os.listdir(eyes.place))


@test("stop_while_vision_loads")
def stop_while_loading(case):
    eyes = Eyes(case, "never_ready.sh")
    conn = eyes.chat(b"cat")
    await_until(lambda: len(eyes.children()) == 2, 2 * SCALE, "it loads")
    eyes.daemon.signal(signal.SIGTERM)
    check_error(conn.wait_end(0.5 * SCALE), 503, "shutting_down")
    check(eyes.daemon.await_exit(SCALE) == 0, "at once: a load has nothing worth a grace")
    check(not os.listdir(eyes.place), "the folder is gone", os.listdir(eyes.place))


@test("killed_daemon_takes_vision_along_and_the_next_sweeps")
def killed(case):
    eyes = Eyes(case, script=dict(ignore_term=True, load=[["grandchild"]], jobs=[[["silent"]]]))
    conn = eyes.chat(b"cat")
    eyes.await_encs(1)
    check(len(eyes.children()) >= 2 and eyes.files(), "it runs, and a file is there", eyes.children(), eyes.files())
    living = Eyes(case)  # another daemon in the same place, which must keep its own
    living.answered(living.chat(b"x"))
    eyes.daemon.signal(signal.SIGKILL)
    await_until(lambda: not eyes.daemon.everything(), 2 * SCALE, f"nothing is left: {eyes.daemon.everything()}", 0.02)
    eyes.daemon.process.wait()
    conn.close()
    check(len(os.listdir(eyes.place)) == 2, "its folder stays behind", os.listdir(eyes.place))
    after = Eyes(case)
    check(len(os.listdir(eyes.place)) == 2 and not after.files(), "swept by the next, and only that", os.listdir(eyes.place))
    living.answered(living.chat(b"x"))
    after.answered(after.chat(b"x"))
    living.daemon.stop()
    after.end()


@test("files_go_with_their_request")
def files(case):
    eyes = Eyes(case)
    eyes.daemon.fake.script(jobs=[[["sleep", 1], ["answer", 3, 0]]])
    conn = eyes.chat(b"cat", b"dog")
    await_until(lambda: eyes.daemon.fake.log("file"), 5 * SCALE, "the engine has it")
    check([name.endswith(".embeddings") for name in eyes.files()] == [True], "one file while the engine may read it", eyes.files())
    conn.close()
    eyes.await_no_files()
    eyes.daemon.fake.script(jobs=[[["die", 9]], [["answer", 3, 0]]])
    eyes.chat(b"cat").wait_end(5 * SCALE)
    eyes.await_no_files()
    eyes.well()
    eyes.end()


@test("a_picture_that_comes_again_is_encoded_once")
def cache(case):
    eyes = Eyes(case, vision={"cache_bytes": 10000})
    for _ in range(3):
        eyes.answered(eyes.chat(b"cat", b"dog", b"cat"))
    check(eyes.log("picture") == [b"cat".hex(), b"dog".hex()], "twice in all", eyes.log("picture"))
    files = [bytes.fromhex(line[2]) for line in eyes.daemon.fake.log("file")]
    check(files == [record(3, ord("c")) + record(3, ord("d")) + record(3, ord("c"))] * 3, "the same records each time", files)
    eyes.answered(eyes.chat(b"x" * 20000))
    eyes.answered(eyes.chat(b"x" * 20000))
    check(len(eyes.encs()) == 4, "one above the cap is not kept", len(eyes.encs()))
    await_until(lambda: [name.endswith(".record") for name in eyes.files()] == [True, True], 2, f"what is kept: {eyes.files()}")
    eyes.end()


@test("eager_vision_is_ready_before_the_first_picture")
def eager(case):
    eyes = Eyes(case, engine={"start": "eager"}, vision={"args": ["--projector", "mine"]})
    status = eyes.await_state("ready")
    check(status["generation"] == 1 and status["pid"] in eyes.children() and status["reason"] == "", "the status", status)
    check(json.loads(eyes.log("args")[0]) == ["--projector", "mine"], "a foreign program gets vision.args alone", eyes.log("args"))
    shown = case.vigil("status", "--url", f"http://127.0.0.1:{eyes.daemon.port}").stdout
    check(f"vision    ready, generation 1, pid {status['pid']}" in shown, "for people too", shown)
    eyes.answered(eyes.chat(b"cat"))
    os.kill(status["pid"], signal.SIGKILL)
    check("SIGKILL" in eyes.await_state("failed")["reason"], "why", eyes.status())
    run_for(0.3)
    check(eyes.status()["generation"] == 1, "it waits for a picture", eyes.status())
    eyes.well()
    eyes.end()


@test("pictures_without_a_vision_child")
def without(case):
    daemon = case.daemon()
    body = {"messages": [{"role": "user", "content": [picture_part(b"cat")]}, {"role": "user", "content": "hi"}]}
    conn = daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE)
    check_error(conn, 400, "image_invalid", "messages[0].content[0]", "takes no images")
    check(daemon.status()["vision"] == {"state": "absent", "generation": 0, "pid": 0, "reason": ""}, "the status", daemon.status())
    check(not daemon.fake.starts, "no engine was started for it")


@test("pictures_by_address_are_not_fetched")
def addresses(case):
    eyes = Eyes(case)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}/a.png", f"http://localhost:{port}/", f"http://[::1]:{port}/", f"http://0.0.0.0:{port}/", f"http://2130706433:{port}/",
                        f"http://[::ffff:127.0.0.1]:{port}/", f"http://{socket.gethostname()}:{port}/", "http://169.254.169.254/latest/", "file:///etc/passwd", "ftp://x/y"):
            body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}]}
            conn = eyes.daemon.request("POST", "/v1/chat/completions", body).wait_end(SCALE)
            error = check_error(conn, 400, "image_invalid", "messages[0].content[0]", "not fetched")
            check(str(port) not in error["message"] and "passwd" not in error["message"], "nothing of the target", error)
        run_for(0.2)
        try:
            listener.accept()
            check(False, "somebody connected")
        except BlockingIOError:
            pass
    check(not eyes.log("start"), "the child was not started for it")


@test("starting_with_pictures_and_no_way_to_read_them")
def no_way(case):
    projector = os.path.join(case.folder, "projector.gguf")
    with open(projector, "wb") as file:
        file.write(b"GGUF")
    if not os.path.exists(os.path.join(case.bin, "vigil-vision")):
        ended = case.vigil("serve", "--port", "0", "--mmproj", projector)
        check(ended.returncode == 1 and len(ended.stderr.strip().splitlines()) == 1, "one line", ended.returncode, ended.stderr)
        check("vision.exe" in ended.stderr and "vigil-vision" in ended.stderr, "that names the program", ended.stderr)
    fake = "vision.exe=" + os.path.join(FAKES, "fake_vision.py")
    for sets, words in [((fake, "vision.mmproj=/nowhere/p.gguf"), ("vision.mmproj", "/nowhere/p.gguf", "No such file")),
                        ((fake, "vision.own=true"), ("vision.mmproj", "--mmproj")),
                        ((fake,), ("vision.image_token", "no image token")),
                        ((fake, "vision.image_token=<nothing>"), ("vision.image_token", "<nothing>")),
                        (("vision.exe=/nowhere/eyes",), ("vision.exe", "/nowhere/eyes"))]:
        ended = case.vigil("serve", "--port", "0", "--model", MODEL, *[word for pair in sets for word in ("--set", pair)])
        check(ended.returncode == 1 and len(ended.stderr.strip().splitlines()) == 1, "one line, exit 1", sets, ended.returncode, ended.stderr)
        for word in words:
            check(word in ended.stderr, f"{word} is named", ended.stderr)
    ended = case.vigil("check", "--set", fake, "--mmproj", projector)
    check(ended.returncode == 0 and json.loads(ended.stdout)["vision"]["mmproj"] == projector, "check takes it", ended.stderr)


@test("pictures_of_the_cases")
def cases(case):
    """The open pictures of the shared cases go through whole, whatever their type says; what they show is the child's business."""
    eyes = Eyes(case, config={"http": {"body_bytes": 1000000, "body_total_bytes": 2000000}}, vision={"image_bytes": 500})
    parts = [({"url": "data:application/pdf;base64,Y2F0"}, 200), ({"url": "data:;base64,Y2F0"}, 200), ("data:image/png;base64,Y2F0", 200),
             ({"url": "data:image/png;base64,!!!!"}, 400), ({"url": "data:image/png;base64,"}, 400), ({"url": "data:image/png;base64,Y2F"}, 400),
             ({"url": "data:image/png;base64," + "QUFB" * 200}, 400), ({}, 400), ({"url": None}, 400)]
    for part, status in parts:
        body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": part}]}], "max_tokens": 9}
        conn = eyes.daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE)
        check(conn.status == status, "status", part, conn.status, bytes(conn.body))
        if status == 400:
            check_error(conn, 400, "image_invalid", "messages[0].content[0]")
            check(conn.took_s < SCALE, "soon", conn.took_s)
    check(len(eyes.encs()) == 3, "only good ones reach the child", eyes.encs())
    eyes.well()
    eyes.end()
