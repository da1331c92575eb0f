#!/usr/bin/env python3
"""A scripted engine child that speaks the line protocol, for the process tests. It does what FAKE_DIR/script.json says and writes
every line that it reads, with the system's monotonic time, to FAKE_DIR/log (and the bytes of a GENI's file) and each start to FAKE_DIR/starts. It judges nothing.

script.json (read at the start and anew at every GEN):
  "load":   steps before READY                     "ready":  the READY line, or null for never
  "idle":   steps right after READY                "jobs":   a list of step lists; the n-th GEN (over all starts since the script was
  "ids":    token ids that tokens cycle through              written) runs the n-th, the last one repeats
  "on_stop": "done" answers STOP with DONE ... cancel; "ignore"; or a number: DONE that many seconds later
  "ignore_term", "ignore_eof": true to live on
  "farewell": a line to print at QUIT and TERM
A step is a line to print (the tag is added), or a list:
  ["answer", n, s]  min(n, max_new) tokens, one every s seconds, then DONE     ["tokens", n, s]  n tokens whatever max_new says
  ["done", finish]                                                           ["pp", n, total, s]  n growing PP lines
  ["sleep", s] ["silent"] ["burn", s]  (burn: s = 0 for ever)                  ["die", signal] ["exit", status]
  ["bytes", latin1] ["drip", text, s]  one byte every s                        ["big", n]  a line of n bytes
  ["stderr", text] ["stderr_bytes", n] ["stderr_lines", n] ["stderr_for_ever"]
  ["close_stdout"] ["grandchild"]  (setsid, ignores TERM, holds stdout)        ["beats", s, true|false]  BEAT lines, step moving or not
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time
from urllib.parse import unquote_to_bytes

FOLDER = os.environ["FAKE_DIR"]
LOG = os.open(os.path.join(FOLDER, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
OUTPUT = threading.Lock()
RUNNING = {}  # tag, or None without ids -> the open job


def log(what, text=""):
    os.write(LOG, f"{time.monotonic():.6f} {os.getpid()} {what} {text}\n".encode())


def read_script():
    with open(os.path.join(FOLDER, "script.json"), encoding="utf-8") as file:
        return json.load(file)


def next_job_number():
    path = os.path.join(FOLDER, "jobs")
    with open(path, "a+b") as file:
        file.write(b".")
    return os.path.getsize(path) - 1


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


class Steps:
    """Runs a list of steps; a STOP interrupts every wait of a job."""

    def __init__(self, script, tag=None, max_new=0, prompt=0):
        self.script, self.tag, self.max_new, self.prompt = script, tag, max_new, prompt
        self.ids = script.get("ids") or [3]
        self.prefix = f"@{tag} " if tag is not None else ""
        self.count = 0
        self.stop = threading.Event()
        self.ended = False

    def plain(self, text):
        with OUTPUT:
            write_all(1, (text + "\n").encode("utf-8", "surrogateescape"))

    def line(self, text):
        self.plain(self.prefix + text)

    def token(self, index):
        return f"{self.prefix}T {self.ids[index % len(self.ids)]}"

    def wait(self, seconds):
        if self.script.get("on_stop", "done") == "ignore":
            time.sleep(seconds)
            return False
        return self.stop.wait(seconds)

    def done(self, finish):
        self.ended = True
        log("sent", f"DONE {finish}")
        self.line(f"DONE {self.count} {self.prompt} 1 1 {finish}")

    def tokens(self, number, every):
        """One every so many seconds, or (0) as fast as the pipe takes them."""
        deaf = self.script.get("on_stop", "done") == "ignore"
        while number > 1 and not every:
            if self.stop.is_set() and not deaf:
                return False
            many = min(number - 1, 1000)
            self.plain("\n".join(self.token(self.count + i) for i in range(many)))
            self.count += many
            number -= many
        for _ in range(number):
            if self.stop.is_set() and self.script.get("on_stop", "done") != "ignore":
                return False
            self.plain(self.token(self.count))
            self.count += 1
            if every and self.wait(every):
                return False
        return True

    def run(self, steps):
        for step in steps:
            if not (self.text_step(step) if isinstance(step, str) else getattr(self, "step_" + step[0])(*step[1:])):
                break
        if self.stop.is_set() and not self.ended and self.script.get("on_stop", "done") != "ignore":
            delay = self.script.get("on_stop", "done")
            if delay != "done":
                time.sleep(delay)
            self.done("cancel")

    def text_step(self, text):
        self.line(text)
        return True

    def step_answer(self, number, every):
        wanted = min(number, self.max_new)
        if not self.tokens(wanted, every):
            return False
        self.done("length" if wanted == self.max_new else "stop")
        return True

    def step_tokens(self, number, every):
        return self.tokens(number, every)

    def step_done(self, finish="stop"):
        self.done(finish)
        return True

    def step_pp(self, number, total, every):
        for i in range(number):
            self.line(f"PP {i + 1} {total} 10 100")
            if self.wait(every):
                return False
        return True

    def step_sleep(self, seconds):
        return not self.wait(seconds)

    def step_silent(self):
        while not self.wait(3600):
            pass
        return False

    def step_burn(self, seconds):
        end = time.monotonic() + (seconds or 1e9)
        while time.monotonic() < end:
            if self.stop.is_set() and self.script.get("on_stop", "done") != "ignore":
                return False
        return True

    def step_die(self, number):
        os.kill(os.getpid(), number)
        time.sleep(60)
        return False

    def step_exit(self, status):
        os._exit(status)

    def step_bytes(self, text):
        with OUTPUT:
            write_all(1, text.encode("latin-1"))
        return True

    def step_drip(self, text, every):
        with OUTPUT:
            for byte in text.encode("utf-8"):
                os.write(1, bytes([byte]))
                time.sleep(every)
        return True

    def step_big(self, size):
        with OUTPUT:
            block = b"x" * 65536
            for _ in range(size // len(block)):
                write_all(1, block)
            write_all(1, b"\n")
        return True

    def step_stderr(self, text):
        write_all(2, (text + "\n").encode())
        return True

    def step_stderr_bytes(self, size):
        for _ in range(size // 65536):
            write_all(2, b"e" * 65536)
        return True

    def step_stderr_lines(self, number):
        write_all(2, b"".join(b"noise %d\n" % i for i in range(number)))
        return True

    def step_stderr_for_ever(self):
        def flood():
            while True:
                write_all(2, b"still talking\n" * 512)
        threading.Thread(target=flood, daemon=True).start()
        return True

    def step_close_stdout(self):
        with OUTPUT:
            os.close(1)
        return True

    def step_grandchild(self):
        subprocess.Popen(["bash", "-c", "trap '' TERM; sleep 3600 & wait; wait"], start_new_session=True, stdin=subprocess.DEVNULL)
        return True

    def step_beats(self, every, moving):
        def beat():
            step = 0
            while True:
                step += 1 if moving else 0
                with OUTPUT:
                    write_all(1, b"BEAT step=%d\n" % step)
                time.sleep(every)
        threading.Thread(target=beat, daemon=True).start()
        return True


def start_job(line, tagged):
    script = read_script()
    words = line.split(" ")
    tag = next((int(word[4:]) for word in words if word.startswith("req=")), None) if tagged else None
    job = Steps(script, tag, 0 if words[0] == "EMB" else int(words[1]), len(words[-1].split(",")))
    jobs = script.get("jobs") or [[["answer", 3, 0.01]]]
    steps = jobs[min(next_job_number(), len(jobs) - 1)]
    RUNNING[tag] = job
    threading.Thread(target=job.run, args=(steps,), daemon=True).start()


def main():
    with open(os.path.join(FOLDER, "starts"), "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    log("start", os.environ.get("VIGIL_CHILD", ""))
    script = read_script()

    def on_term(_number, _frame):
        log("term")
        if script.get("farewell"):
            write_all(1, (script["farewell"] + "\n").encode())
        if not script.get("ignore_term"):
            os._exit(0)
    signal.signal(signal.SIGTERM, on_term if script.get("farewell") or not script.get("ignore_term") else signal.SIG_IGN)
    Steps(script).run(script.get("load", []))
    ready = script.get("ready", "READY 4096 stop")
    if ready is None:
        while True:
            time.sleep(3600)
    log("sent", ready)
    Steps(script).line(ready)
    tagged = "ids" in ready.split(" ")
    if script.get("idle"):
        threading.Thread(target=Steps(script).run, args=(script["idle"],), daemon=True).start()
    for raw in sys.stdin.buffer:
        line = raw.decode().rstrip("\r\n")
        log("read", line)
        if line.startswith("GENI "):
            with open(unquote_to_bytes(line.split(" ")[-2]), "rb") as embeddings:
                log("file", embeddings.read().hex())
        if line.startswith(("GEN ", "GENI ", "EMB ")):
            start_job(line, tagged)
        elif line.startswith("STOP"):
            job = RUNNING.get(int(line.split(" ")[1]) if tagged else None)
            if job and not job.ended:
                job.stop.set()
        elif line == "QUIT":
            on_term(0, None)
    log("eof")
    while script.get("ignore_eof"):
        time.sleep(3600)
    os._exit(0)


main()
