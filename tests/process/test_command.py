"""The programs as a user starts them: the listening line, exit statuses and their one line, check, status, what a child inherits."""
import json
import os
import re
import resource
import signal
import socket
import subprocess

import procs
from client import SCALE, await_until, check
from harness import MODEL, check_answer
from registry import test


def one_line(result, status, *words):
    check(result.returncode == status, f"exit status {status}", result.returncode, result.stdout, result.stderr)
    lines = result.stderr.strip().splitlines()
    check(len(lines) == 1, "one line on stderr", result.stderr)
    for word in words:
        check(word in lines[0], f"{word!r} in it", lines[0])
    check(not result.stdout, "nothing on stdout", result.stdout)


@test("listening_line_and_clean_stop")
def listening(case):
    daemon = case.daemon()
    check(re.fullmatch(rb"vigil listening on http://127\.0\.0\.1:\d+\n", daemon.stdout), "the line", daemon.stdout)
    daemon.chat_until_answered()
    daemon.stop()
    daemon.stdout += daemon.process.stdout.read() or b""
    check(daemon.stdout.count(b"\n") == 1, "nothing else on stdout", daemon.stdout)


@test("default_port_and_host_from_flags")
def flags(case):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = case.daemon(port=1, args=["--port", str(port), "--host", "127.0.0.1"], env={"VIGIL_PORT": "2"})
    check(daemon.port == port, "flag before environment before file", daemon.port)
    check(daemon.get("/health").status == 200, "it listens there")


@test("port_in_use")
def port_in_use(case):  # S22
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        one_line(case.vigil("serve", "--port", port), 1, "127.0.0.1", port, "in use")
    check(not [pid for pid in procs.pids() if port in procs.command(pid).split()], "nothing is left")


@test("missing_model_file")
def missing_model(case):
    one_line(case.vigil("serve", "--port", "0", "--model", "/no/such/model.gguf"), 1, "/no/such/model.gguf")


@test("model_that_is_none")
def not_a_model(case):
    path = os.path.join(case.folder, "text.gguf")
    with open(path, "w", encoding="ascii") as file:
        file.write("this is no model\n" * 10)
    one_line(case.vigil("serve", "--port", "0", "--model", path), 1, path)


@test("unknown_key")
def unknown_key(case):
    for command in ("serve", "check"):
        one_line(case.vigil(command, "--set", "engine.redy_s=3"), 2, "engine.redy_s", "engine.ready_s")
    path = os.path.join(case.folder, "bad.json")
    with open(path, "w", encoding="ascii") as file:
        file.write('{\n  // a comment\n  "engine": { "stal_s": 3 },\n  "prot": 1\n}\n')
    result = case.vigil("check", "--config", path)
    check(result.returncode == 2, "exit 2", result)
    for word in ("engine.stal_s", "engine.stall_s", "prot", "port"):
        check(word in result.stderr + result.stdout, f"every mistake: {word}", result.stderr, result.stdout)


@test("usage_errors")
def usage(case):
    for args in (["serve", "--no-such-flag"], ["no-such-command"], ["serve", "--port", "seventy"], ["serve", "--port", "70000"],
                 ["serve", "--set", "engine.ready_s=soon"], ["serve", "--config", "/no/such/file.json"], ["serve", "--set", "host=0.0.0.0"],
                 ["serve", "--set", 'api_keys=[""]']):
        result = case.vigil(*args, "--port", "0") if args[0] == "serve" and "--port" not in args else case.vigil(*args)
        check(result.returncode == 2 and result.stderr.strip(), f"exit 2 and a reason: {args}", result)
    result = case.vigil("serve", "--port", "0", env={"VIGIL_ENGINE_STALL_S": "x"})
    check(result.returncode == 2 and "VIGIL_ENGINE_STALL_S" in result.stderr, "the variable is named", result)


@test("check_prints_the_effective_configuration")
def effective(case):
    path = os.path.join(case.folder, "vigil.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"engine": {"ready_s": 10, "stall_s": 11, "step_s": 12}, "api_keys": ["hide-me"]}, file)
    result = case.vigil("check", "--config", path, "--set", "engine.stall_s=21", env={"VIGIL_ENGINE_READY_S": "8", "VIGIL_ENGINE_STALL_S": "9"})
    check(result.returncode == 0, "exit 0", result)
    found = json.loads(result.stdout)
    engine = found["engine"]
    check((engine["ready_s"], engine["stall_s"], engine["step_s"], engine["cancel_s"]) == (8, 21, 12, 30), "flag > environment > file > default", engine)
    check("hide-me" not in result.stdout + result.stderr and "***" in result.stdout, "secrets as ***", result.stdout)


@test("status_command")
def status(case):
    daemon = case.daemon()
    daemon.chat_until_answered()
    url = f"http://127.0.0.1:{daemon.port}"
    result = case.vigil("status", "--url", url, "--json")
    check(result.returncode == 0 and json.loads(result.stdout)["engine"]["state"] == "ready", "as JSON", result)
    result = case.vigil("status", "--url", url)
    check(result.returncode == 0 and "ready" in result.stdout, "for people", result)
    port = daemon.port
    daemon.stop()
    result = case.vigil("status", "--url", f"http://127.0.0.1:{port}")
    check(result.returncode == 1 and str(port) in result.stderr and len(result.stderr.strip().splitlines()) == 1, "nobody there: one line", result)


@test("no_flag_serves_the_bundled_model")
def bundled(case):
    result = case.vigil("check")
    check(json.loads(result.stdout)["port"] == 8080, "port 8080 by default", result.stdout)
    daemon = case.daemon(None, config={"model": ""})
    models = [one["id"] for one in daemon.get("/v1/models").json()["data"]]
    check(models == ["vigil-tiny"], "the bundled model", models)
    chat = daemon.chat(max_tokens=8).wait_end(20 * SCALE)
    check(chat.status == 200 and chat.json()["usage"]["completion_tokens"] <= 8, "it answers", bytes(chat.body))
    daemon.alive(fake=False)


@test("what_a_child_inherits")
def inherits(case):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    daemon = case.daemon(engine={"env": {"EXTRA": "given"}},
                         env={"VIGIL_ENGINE_READY_S": "20", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "LISTEN_PID": "1", "LISTEN_FDS": "1", "KEPT": "kept"})
    daemon.chat_until_answered()
    pid = daemon.status()["engine"]["pid"]
    found = procs.environment(pid)
    ours = sorted(name for name in found if name.startswith(("VIGIL_", "NOTIFY_", "LISTEN_", "WATCHDOG_")))
    check(ours == ["VIGIL_CHILD"], "only the marker", ours)
    check(re.fullmatch(r"[^.]+\.engine\.1", found["VIGIL_CHILD"]), "instance, name, generation", found["VIGIL_CHILD"])
    check(found["EXTRA"] == "given" and found["KEPT"] == "kept", "engine.env and the rest", found)
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as mine, open(f"/proc/{daemon.pid}/oom_score_adj", encoding="ascii") as its:
        check(int(mine.read()) == min(1000, int(its.read()) + 500), "oom_score_adj +500")
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        soft = next(line.split()[3] for line in file if line.startswith("Max open files"))
    check(soft == str(limit), "the daemon's original open-file limit", soft, limit)
    check(sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))[:3] == [0, 1, 2], "its three pipes")
    inherited = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd") if int(name) > 2]
    check(not any(link.startswith(("socket:", "pipe:")) or "pidfd" in link for link in inherited), "no socket or pipe of ours", inherited)
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        masks = {line.split(":")[0]: int(line.split()[1], 16) for line in file if line.startswith(("SigBlk", "SigIgn"))}
    pythons = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)  # what the fake's interpreter ignores by itself
    check(masks["SigBlk"] == 0 and not masks["SigIgn"] & ~pythons, "signals unblocked and not ignored", masks)


@test("engine_log_file")
def engine_log(case):
    path = os.path.join(case.folder, "engine.log")
    daemon = case.daemon(engine={"log": path})
    daemon.fake.script(load=[["stderr", "words for the file"]])
    check_answer(daemon.chat().wait_end(), case.letters.text(3))

    def written():
        with open(path, encoding="utf-8") as file:
            return "words for the file" in file.read()
    await_until(lambda: os.path.exists(path) and written(), 3 * SCALE, "the child's stderr is in engine.log")
    other = case.daemon()
    other.fake.script(load=[["stderr", "words for us"]])
    check_answer(other.chat().wait_end(), case.letters.text(3))
    await_until(lambda: re.search(r"engine.*\b1\b.*words for us", other.stderr()), 3 * SCALE, "or on ours, with name and generation")


@test("two_daemons_do_not_touch_each_other")
def two(case):
    first, second = case.daemon(), case.daemon()
    for daemon in (first, second):
        daemon.chat_until_answered()
    first.signal(signal.SIGKILL)
    await_until(lambda: not first.everything(), 2 * SCALE, f"the first is gone with its engine: {first.everything()}")
    second.alive()
    check(second.status()["engine"]["generation"] == 1, "the second's engine lives", second.status())


@test("model_flag_gives_a_foreign_engine_its_vocabulary")
def model_flag(case):
    daemon = case.daemon(args=["--model", MODEL])
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    reply = daemon.request("POST", "/v1/tokenize", {"text": "hello"}).wait_end()
    tokens = reply.json()["tokens"]
    text = daemon.request("POST", "/v1/detokenize", {"tokens": tokens}).wait_end().json()["text"]
    check(reply.status == 200 and tokens and text == "hello", "there and back", tokens, text)


@test("engine_looked_up_in_path")
def in_path(case):
    folder = os.path.join(case.folder, "path")
    os.makedirs(folder)
    daemon = case.daemon(engine={"exe": "my-engine"}, env={"PATH": folder + ":" + os.environ["PATH"]}, wait=None)
    subprocess.run(["cp", os.path.join(daemon.folder, "engine"), os.path.join(folder, "my-engine")], check=True)
    daemon.start()
    check_answer(daemon.chat().wait_end(), case.letters.text(3))


@test("inspect_says_what_a_model_is_without_loading_it")
def inspect(case):
    result = case.vigil("inspect", MODEL)
    check(result.returncode == 0, "it can", result.stderr)
    for words in ("architecture", "parameters", "Q8_0", "KV cache by context", "runs          yes"):
        check(words in result.stdout, words, result.stdout)
    by_default = case.vigil("inspect")
    check(by_default.returncode == 0 and "architecture" in by_default.stdout, "the bundled model without a name", by_default.stdout, by_default.stderr)
    one_line(case.vigil("inspect", "/no/such/model.gguf"), 1, "/no/such/model.gguf")
    path = os.path.join(case.folder, "text.gguf")
    with open(path, "w", encoding="ascii") as file:
        file.write("this is no model\n" * 10)
    one_line(case.vigil("inspect", path), 1, path)
