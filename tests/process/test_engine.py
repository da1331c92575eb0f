"""The real vigil-engine under the daemon with the bundled model: answers, leavers, death from outside. Its numbers are tested elsewhere."""
import json
import os
import signal

import procs
from client import SCALE, await_until, check, run_for
from harness import check_error, check_stream_error
from registry import test


def ids(daemon, prompt, **fields):
    reply = daemon.request("POST", "/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 24, "return_token_ids": True, **fields})
    reply.wait_end(60 * SCALE)
    check(reply.status == 200, "200", reply.status, bytes(reply.body))
    return reply


@test("real_engine_streams_what_it_answers_plainly")
def same(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    plain = ids(daemon, "one two three")
    choice, usage = plain.json()["choices"][0], plain.json()["usage"]
    stream = ids(daemon, "one two three", stream=True, stream_options={"include_usage": True})
    streamed = [token for chunk in stream.data for part in chunk.get("choices", []) for token in part.get("token_ids", [])]
    check(streamed == choice["token_ids"] and streamed, "the same ids", streamed, choice)
    check("".join(stream.deltas) == choice["text"], "the same text", stream.deltas, choice)
    counts = {key: stream.data[-1]["usage"][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    check(all(usage[key] == value for key, value in counts.items()) and usage["completion_tokens"] == len(choice["token_ids"]), "the same usage", counts, usage)
    check(usage["prompt_tokens"] == len(plain.json()["prompt_token_ids"] if "prompt_token_ids" in plain.json() else choice["prompt_token_ids"]),
          "the prompt's ids", plain.json())
    daemon.alive(fake=False)


@test("real_engine_answers_in_the_shape_that_was_asked_for")
def shapes(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
              "required": ["city", "days"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": schema}}

    def fits(text):
        value = json.loads(text)
        return set(value) == {"city", "days"} and len(value["city"]) <= 10 and value["days"] in range(1, 10)

    def choice(**fields):
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400, **fields}
        reply = daemon.request("POST", "/v1/chat/completions", json.dumps(body).encode()).wait_end(60 * SCALE)
        check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
        return reply.json()["choices"][0]

    for seed in range(5):
        for wanted in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            given = choice(tools=[tool], tool_choice=wanted, parallel_tool_calls=False, seed=seed)
            calls = given["message"].get("tool_calls", [])
            check(given["finish_reason"] == "tool_calls" and len(calls) == 1 and calls[0]["function"]["name"] == "get_weather" and
                  fits(calls[0]["function"]["arguments"]), "one call that fits its schema", given)
        given = choice(response_format={"type": "json_schema", "json_schema": {"name": "w", "strict": True, "schema": schema}}, seed=seed)
        check(given["finish_reason"] == "stop" and fits(given["message"]["content"]), "an object that fits the schema", given)
        given = choice(grammar='root ::= ("yes" | "no") "!"', seed=seed)
        check(given["message"]["content"] in ("yes!", "no!"), "what the user's grammar says", given)
    daemon.alive(fake=False)


@test("real_engine_is_free_after_a_leaver")
def leaver(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    for how in ("close", "reset"):
        stream = daemon.chat(stream=True, max_tokens=100000, ignore_eos=True)
        await_until(lambda: stream.events and (stream.deltas or stream.complete), 30 * SCALE, "it streams")
        getattr(stream, how)()
        chat = daemon.chat(text="next", max_tokens=4).wait_end(10 * SCALE)
        check(chat.status == 200, "the next is answered", chat.status, bytes(chat.body))
    check(daemon.status()["engine"]["generation"] == 1, "by the same engine", daemon.status())
    daemon.alive(fake=False)


@test("real_engine_killed_from_outside")
def killed(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    daemon.chat_until_answered()
    for number, name in ((signal.SIGABRT, "signal 6"), (signal.SIGKILL, "signal 9")):  # sanitizers catch SEGV themselves
        await_until(lambda: daemon.idle(daemon.status()), 5 * SCALE, "the answer before is over for the engine too")
        pid = daemon.status()["engine"]["pid"]
        os.kill(pid, signal.SIGSTOP)  # holds the answer open however fast the engine is
        stream = daemon.chat(stream=True, text=name, max_tokens=50)
        daemon.await_requests(running=1)
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)
        stream.wait_end(5 * SCALE)
        if stream.status == 200:
            check_stream_error(stream, len(stream.deltas), 503, "engine_crashed", name)
        else:
            check_error(stream, 503, "engine_crashed", name)
        daemon.chat_until_answered()
    daemon.alive(fake=False)


@test("real_engine_dies_with_the_daemon")
def dies(case):
    daemon = case.daemon(None, engine={"start": "eager"})
    daemon.await_engine("ready", 30)
    check(len(daemon.children()) == 1, "one child", daemon.everything())
    daemon.signal(signal.SIGKILL)
    await_until(lambda: not daemon.everything(), 2 * SCALE, f"nothing is left: {daemon.everything()}", 0.02)
    daemon.process.wait()


@test("real_engine_stalls_when_stopped")
def stalls(case):
    daemon = case.daemon(None, engine={"stall_s": 2, "step_s": 2, "stop_s": 1})
    daemon.chat_until_answered()
    await_until(lambda: daemon.idle(daemon.status()), 3 * SCALE, "idle: a DONE that is still to come would make that answer the stalled one")
    pid = daemon.status()["engine"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    chat = daemon.chat(text="anyone?").wait_end(30 * SCALE)
    check_error(chat, 503, "engine_stalled")
    await_until(lambda: procs.stat(pid) is None, 1 + 2 * SCALE, "it is gone")
    daemon.alive(fake=False)


@test("context_is_checked_before_the_queue")
def context(case):
    daemon = case.daemon()
    daemon.fake.script(ready="READY 64 stop")
    daemon.chat_until_answered()
    before = len(daemon.fake.generations())
    reply = daemon.chat(text="word " * 500).wait_end(5 * SCALE)
    error = check_error(reply, 400, "context_length_exceeded", "64")
    check(any(char.isdigit() for char in error["message"].replace("64", "")), "both numbers", error)
    run_for(0.1)
    check(len(daemon.fake.generations()) == before, "the engine is not asked", daemon.fake.log())
    daemon.alive()
