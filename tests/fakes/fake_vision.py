#!/usr/bin/env python3
"""A scripted vision child that speaks the vision protocol, for the process tests. It does what FAKE_VISION_DIR/script.json says and writes
every line that it reads, with the system's monotonic time, to FAKE_VISION_DIR/log. It judges nothing.

script.json (read at the start and anew at every ENC):
  "load":   steps before READY            "width":  floats of a row (4)          "ready": false for never
  "jobs":   a list of step lists; the n-th ENC (over all starts since the script was written) runs the n-th, the last one repeats
  "ignore_term": true to live on
A step is a line to print, or a list:
  ["encode", rows]   writes a right record of so many rows (by default as many as the picture has bytes, 7 at most) and says OK
  ["record", latin1] writes these bytes as the record           ["floats", rows, value]  a record of one value, no line
  ["sleep", s] ["silent"] ["die", signal] ["exit", status] ["stderr", text] ["close_stdout"] ["grandchild"]  (setsid, ignores TERM, holds stdout)
Row i of a picture is filled with its first byte's value plus i / 8, so that a record says whose it is.
"""
import json
import os
import signal
import struct
import subprocess
import sys
import time
from urllib.parse import unquote_to_bytes

FOLDER = os.environ["FAKE_VISION_DIR"]
LOG = os.open(os.path.join(FOLDER, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


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


def say(text):
    os.write(1, (text + "\n").encode("utf-8", "surrogateescape"))


class Steps:
    def __init__(self, script, picture=b"", out=b""):
        self.width, self.picture, self.out = script.get("width", 4), picture, out

    def run(self, steps):
        for step in steps:
            if isinstance(step, str):
                say(step)
            else:
                getattr(self, "step_" + step[0])(*step[1:])

    def write(self, data):
        with open(self.out, "wb") as file:
            file.write(data)

    def record(self, rows, value):
        values = [value + i // self.width / 8 for i in range(rows * self.width)]
        return b"SVE1" + struct.pack("<4i", rows, rows, 1, self.width) + struct.pack(f"<{len(values)}f", *values)

    def step_encode(self, rows=0):
        rows = rows or min(len(self.picture), 7)
        self.write(self.record(rows, float(self.picture[0])))
        say(f"OK {rows} {rows} 1 1.5")

    def step_record(self, text):
        self.write(text.encode("latin-1"))

    def step_floats(self, rows, value):
        self.write(self.record(rows, value))

    def step_sleep(self, seconds):
        time.sleep(seconds)

    def step_silent(self):
        while True:
            time.sleep(3600)

    def step_die(self, number):
        os.kill(os.getpid(), number)
        time.sleep(60)

    def step_exit(self, status):
        os._exit(status)

    def step_stderr(self, text):
        os.write(2, (text + "\n").encode())

    def step_close_stdout(self):
        os.close(1)

    def step_grandchild(self):
        subprocess.Popen(["bash", "-c", "trap '' TERM; sleep 3600 & wait; wait"], start_new_session=True, stdin=subprocess.DEVNULL)


def main():
    log("start", os.environ.get("VIGIL_CHILD", ""))
    log("args", json.dumps(sys.argv[1:]))
    script = read_script()

    def on_term(_number, _frame):
        log("term")
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if script.get("ignore_term") else on_term)
    Steps(script).run(script.get("load", []))
    if not script.get("ready", True):
        Steps(script).step_silent()
    say(f"READY {script.get('width', 4)}")
    for raw in sys.stdin.buffer:
        line = raw.decode().rstrip("\r\n")
        log("read", line)
        if line == "QUIT":
            os._exit(0)
        words = line.split(" ")
        if words[0] != "ENC" or len(words) != 3:
            continue
        image, out = (unquote_to_bytes(word) for word in words[1:])
        with open(image, "rb") as file:
            picture = file.read()
        log("picture", picture.hex())
        script = read_script()
        jobs = script.get("jobs") or [[["encode"]]]
        Steps(script, picture, out).run(jobs[min(next_job_number(), len(jobs) - 1)])
    log("eof")
    os._exit(0)


main()
