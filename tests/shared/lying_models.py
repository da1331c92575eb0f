#!/usr/bin/env python3
"""Model files that lie (case E1): each is refused within 2 s with a line that names the field or tensor, by an exit status, never by a
signal, in little memory; the daemon says the same, and the next good model loads. Usage: lying_models.py --bin FOLDER --shared FOLDER."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

from client import SCALE, await_until, check  # noqa: E402
from harness import Case, Daemon, clean_environment  # noqa: E402

# What the refusal must mention, by the number in the file's name: any one of these.
NAMES = {
    1: "too short|empty|magic|header", 2: "too short|version|header|ends", 3: "version", 4: "metadata|key|length", 5: "metadata|key|length", 6: "metadata|kv|key",
    7: "tensor", 8: '"?a"?|array', 9: '"?a"?|array', 10: '"?a"?|array', 11: "key", 20: "token_embd.weight", 21: "token_embd.weight", 22: "token_embd.weight",
    23: "token_embd.weight", 24: "token_embd.weight", 25: "token_embd.weight", 26: "blk.0.attn_norm.weight", 27: "output_norm.weight",
    28: "output_norm.weight", 29: "blk.0.attn_norm.weight", 30: "general.alignment", 31: "general.alignment", 32: "general.alignment",
    33: r"\.weight", 34: "output_norm.weight", 35: r"\.weight", 36: "block_count", 37: "head_count", 38: "head_count", 39: "token_embd.weight",
    40: "token_embd.weight", 41: "nosuch", 42: "tensor|name",
}


def write_fixtures(shared, out):
    maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_e1.py")
    subprocess.run([sys.executable, "-B", maker, shared, out], check=True, stdout=subprocess.DEVNULL)
    files = sorted(os.listdir(out))
    check(len(files) >= 34 and all(int(name[3:5]) in NAMES for name in files), "34 files, each known to this test", files)
    return [os.path.join(out, name) for name in files]


def engine_refuses(engine, path):
    started = time.monotonic()
    process = subprocess.Popen([engine, "--model", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    await_until(lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG), 20, f"{path}: the engine ends")
    took = time.monotonic() - started
    output = (process.stdout.read() + process.stderr.read()).decode("utf-8", "replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    process.stdin.close()
    check(took < 2 * SCALE, f"{path}: refused within 2 s", took)
    check(os.WIFEXITED(status) and os.WEXITSTATUS(status) in (1, 2), f"{path}: exit status, no signal", status, output)
    check(re.search(NAMES[int(os.path.basename(path)[3:5])], output), f"{path}: the line names field or tensor", output)
    check("READY" not in output and not re.search("Sanitizer|runtime error", output), f"{path}: no READY, no finding", output)
    if SCALE == 1:
        check(usage.ru_maxrss * 1024 < os.path.getsize(path) + (64 << 20), f"{path}: peak memory", usage.ru_maxrss)
    return output.strip().splitlines()[0]


def daemon_refuses(case, path):
    """Exits 1 at the start with one line, or shows the failed engine with the reason."""
    model = os.path.join(case.folder, "model.gguf")
    shutil.copy(path, model)
    names = NAMES[int(os.path.basename(path)[3:5])]
    daemon = Daemon(case, None, engine={"start": "eager", "stop_s": 5, "backoff_first_ms": 60000, "backoff_max_s": 60}, args=["--model", model], wait=None)
    daemon.start(wait=False)
    try:
        await_until(lambda: daemon.process.poll() is not None or listening(daemon), 2 * SCALE, f"{path}: an end or a port")
        if daemon.process.poll() is not None:
            lines = daemon.stderr().strip().splitlines()
            check(daemon.process.returncode == 1 and len(lines) == 1 and model in lines[0] and re.search(names, lines[0]), f"{path}: exit 1 and one line", daemon.process.returncode, lines)
            how = "exit 1"
        else:
            status = await_until(lambda: (s := daemon.status()["engine"])["state"] in ("failed", "backoff") and s, 2 * SCALE + 2, f"{path}: failed", 0.02)
            check(re.search(names, status["reason"]) and "signal" not in status["reason"], f"{path}: the reason", status)
            how = status["state"]
        return how
    finally:
        daemon.check_log()
        daemon.destroy()


def listening(daemon):
    daemon.stdout += daemon.process.stdout.read() or b""
    match = re.match(rb"vigil listening on http://[^:]+:(\d+)\n", daemon.stdout)
    daemon.port = int(match.group(1)) if match else None
    return bool(match)


def good_model_follows(case, bad, good):
    """A daemon that serves a good model, whose file is then replaced by a bad one and by a good one again, dies of neither."""
    model = os.path.join(case.folder, "changing.gguf")
    shutil.copy(good, model)
    daemon = case.daemon(None, engine={"start": "lazy", "stop_s": 5}, args=["--model", model])
    daemon.chat_until_answered()
    for source, status in ((bad, 503), (good, 200)):
        shutil.copy(source, model + ".new")
        os.rename(model + ".new", model)
        os.kill(daemon.status()["engine"]["pid"], 9) if daemon.status()["engine"]["pid"] else None
        await_until(lambda: daemon.status()["engine"]["state"] != "ready", 5 * SCALE, "the engine is gone", 0.02)
        if status == 503:
            reply = daemon.chat().wait_end(5 * SCALE)
            check(reply.status == 503 and "token_embd.weight" in reply.json()["error"]["message"], "the request is told why", bytes(reply.body))
        else:
            daemon.chat_until_answered()
    daemon.alive(fake=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    good = os.path.join(args.shared, "models", "stories260K-f32.gguf")
    case = Case(args.bin)
    out = tempfile.mkdtemp(dir=case.folder)
    failed = True
    try:
        for path in write_fixtures(args.shared, out):
            line = engine_refuses(os.path.join(args.bin, "vigil-engine"), path)
            print(f"{os.path.basename(path)}: {daemon_refuses(case, path)}; {line}", flush=True)
        good_model_follows(case, os.path.join(out, "e1_40_tensor_missing.gguf"), good)
        failed = False
    finally:
        case.close(failed)


if __name__ == "__main__":
    main()
