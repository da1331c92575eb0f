"""The real vigil-engine under the daemon with the bundled model: answers, leavers, death from outside. Its numbers are tested elsewhere."""
import json
import os
import signal

import procs
from client import SCALE, await_until, check, run_for
from harness import MODEL, SOURCE, check_error, check_stream_error
from registry import test
from vocabulary import Metadata


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


def completion(daemon, prompt, **fields):
    """Ids of one completion, and how many of its prompt's tokens came from a cache."""
    reply = ids(daemon, prompt, **fields).json()
    details = reply["usage"].get("prompt_tokens_details") or {}
    return reply["choices"][0]["token_ids"], details.get("cached_tokens", 0)


@test("E3_extreme_parameters")
def extremes(case):
    """Extreme values that mean something are answered; those that mean nothing are a 400 that names the field; the engine lives."""
    daemon = case.daemon(None, engine={"stop_s": 5})
    size = len(Metadata(MODEL).values["tokenizer.ggml.tokens"])

    def ask(**fields):
        return daemon.request("POST", "/v1/completions", {"prompt": "one two", "max_tokens": 3, **fields}).wait_end(30 * SCALE)

    for name, value in (("temperature", -1), ("top_p", -1), ("repeat_penalty", 0), ("logit_bias", {"999999999": 1}), ("logit_bias", {"-1": 1}), ("prompt", [-1]),
                        ("prompt", [size]), ("max_tokens", 0), ("max_tokens", -1), ("top_p", 1.5), ("min_p", 2)):
        reply = ask(**{name: value})
        check(reply.status == 400 and name in str(reply.json()["error"]["param"]), f"{name}={value} is a 400 that names it", reply.status, bytes(reply.body))
    for fields in ({"temperature": 1e-9}, {"temperature": 0, "top_k": 1}, {"top_k": 0}, {"top_k": -1}, {"top_k": 10 * size}, {"top_p": 0}, {"top_p": 1}, {"min_p": 1},
                   {"seed": -1}, {"seed": 2 ** 63 - 1}, {"logit_bias": {"5": -100, "6": 100}}):
        reply = ask(**fields)
        check(reply.status == 200, f"{fields} is answered", reply.status, bytes(reply.body))
    check(daemon.status()["engine"]["generation"] == 1, "by one engine", daemon.status()["engine"])
    daemon.alive(fake=False)


@test("E4_cache_does_not_change_the_answer", 180)
def cache(case):
    """Cold, again, after an unrelated one, after a cancelled one, beside others, on one slot, and with nothing kept: the same ids."""
    prompt = [7 + (i * 31 + i * i) % 400 for i in range(300)]
    unrelated = [9 + (i * 17) % 300 for i in range(200)]
    daemon = case.daemon(None, engine={"stop_s": 5})
    cold, cached = completion(daemon, prompt)
    check(len(cold) >= 1 and cached == 0, "a cold answer", cold, cached)
    again, cached = completion(daemon, prompt)
    check(again == cold and cached == 299, "again: all but the last token came from the cache", again, cold, cached)
    completion(daemon, unrelated)
    after, cached = completion(daemon, prompt)
    check(after == cold and cached == 299, "after an unrelated one", after, cold, cached)
    endless = {"stream": True, "max_tokens": 100000, "logit_bias": {str(case.letters.end_id): -100}}
    stream = daemon.request("POST", "/v1/completions", {"prompt": prompt[:250] + unrelated[:40], **endless})
    await_until(lambda: stream.events, 30 * SCALE, "it streams")
    stream.close()
    after, cached = completion(daemon, prompt)
    check(after == cold and cached >= 250, "after a cancelled one", after, cold, cached)
    together = [daemon.request("POST", "/v1/completions", {"prompt": own, "temperature": 0, "max_tokens": 24, "return_token_ids": True})
                for own in (prompt, unrelated, prompt, prompt[:100], unrelated, prompt)]
    for reply in together:
        reply.wait_end(60 * SCALE)
    for place in (0, 2, 5):
        check(together[place].json()["choices"][0]["token_ids"] == cold, "beside others", together[place].json())
    seeded = [completion(daemon, prompt, temperature=1, seed=seed)[0] for seed in (7, 7, 7, 8)]
    check(seeded[0] == seeded[1] == seeded[2] != seeded[3], "seed 7 repeats, seed 8 differs", seeded)
    for engine in ({"cache_mib": -1}, {"slots": 1}, {"args": ["--speculate", "8"]}, {"slots": 1, "step_ms": 1}):
        other = case.daemon(None, engine={"stop_s": 5, **engine})
        for attempt in range(2):
            found, cached = completion(other, prompt)
            check(found == cold and cached == (0 if attempt == 0 or "cache_mib" in engine else 299), f"with {engine}", found, cold, cached)
        check(completion(other, prompt, temperature=1, seed=7)[0] == seeded[0], f"seed 7 with {engine}")
    daemon.alive(fake=False)


@test("real_engine_guesses_with_a_draft_model", 120)
def draft(case):
    """The model as its own draft, and one that has another vocabulary: the same ids, and a start that fails with the reason."""
    plain = case.daemon(None, engine={"stop_s": 5})
    prompts = ("one two three", "The capital of France is", [7 + (i * 31 + i * i) % 400 for i in range(200)])
    endless = {"max_tokens": 60, "logit_bias": {str(case.letters.end_id): -100}}
    asked = [{"prompt": prompt, **endless, **how} for prompt in prompts for how in ({}, {"temperature": 1, "seed": 7}, {"logprobs": 2})]

    def answers(daemon):
        replies = [daemon.request("POST", "/v1/completions", {"temperature": 0, "return_token_ids": True, **body}) for body in asked]
        for reply in replies:
            reply.wait_end(60 * SCALE)
            check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
        return [(reply.json()["choices"][0]["token_ids"], reply.json()["choices"][0].get("logprobs")) for reply in replies]

    expected = answers(plain)
    for engine in ({"args": ["--draft-model", MODEL]}, {"slots": 1, "args": ["--draft-model", MODEL, "--speculate", "3"]}):
        daemon = case.daemon(None, engine={"stop_s": 5, **engine})
        for _ in range(2):
            for found, wanted in zip(answers(daemon), expected):
                check(found == wanted, f"with {engine}", found, wanted)
        daemon.alive(fake=False)
    refused = case.daemon(None, engine={"stop_s": 5, "args": ["--draft-model", os.path.join(SOURCE, "models", "vigil-tiny.gguf")]})
    reply = refused.request("POST", "/v1/completions", {"prompt": "one"}).wait_end(30 * SCALE)
    check(reply.status == 503, "503", reply.status, bytes(reply.body))
    reason = refused.await_engine("failed")["engine"]["reason"]
    check("could not load" in reason and "vigil-tiny.gguf: it has another vocabulary: " in reason, "the reason says where they differ", reason)


@test("E6_context_full", 120)
def context_full(case):
    daemon = case.daemon(None, engine={"stop_s": 5, "context": 256})
    daemon.chat_until_answered()
    numbers = [7 + (i * 31 + i * i) % 400 for i in range(300)]

    def full(count):
        body = {"prompt": numbers[:count], "max_tokens": 100, "temperature": 0, "logit_bias": {str(case.letters.end_id): -100}, "return_token_ids": True}
        return daemon.request("POST", "/v1/completions", body).wait_end(60 * SCALE)

    for count in (300, 256):
        check_error(full(count), 400, "context_length_exceeded", str(count), "256")
    answers = {}
    for count in (250, 255, 250):  # fill it, another conversation, the first again
        reply = full(count)
        check(reply.status == 200, "200", reply.status, bytes(reply.body))
        choice = reply.json()["choices"][0]
        check(len(choice["token_ids"]) == 256 - count and choice["finish_reason"] == "length", f"{256 - count} tokens, length", choice)
        check(answers.setdefault(count, choice["token_ids"]) == choice["token_ids"], "the first again", choice, answers)
    await_until(lambda: daemon.idle(daemon.status()), 5 * SCALE, "idle")
    pid = daemon.status()["engine"]["pid"]
    before = procs.cpu_s(pid)
    run_for(0.5)
    check(procs.cpu_s(pid) - before < 0.1, "no CPU time afterwards", before, procs.cpu_s(pid))
    daemon.alive(fake=False)


@test("real_engine_serves_several_at_once", 120)
def several(case):
    daemon = case.daemon(None, engine={"stop_s": 5, "slots": 3})
    daemon.chat_until_answered()
    await_until(lambda: daemon.idle(daemon.status()), 5 * SCALE, "idle")
    status = daemon.status()["engine"]
    check(status["slots"] == 3, "three slots", status)
    prompts = [[20 + i, 21, 22] for i in range(5)]
    alone = [ids(daemon, prompt).json()["choices"][0]["token_ids"] for prompt in prompts]
    os.kill(status["pid"], signal.SIGSTOP)  # holds the answers open however fast the engine is
    body = {"temperature": 0, "max_tokens": 24, "return_token_ids": True}
    requests = [daemon.request("POST", "/v1/completions", {"prompt": prompt, **body}) for prompt in prompts[:4]]
    daemon.await_requests(running=3, queued=1)
    requests[1].close()
    requests.append(daemon.request("POST", "/v1/completions", {"prompt": prompts[4], **body}))
    os.kill(status["pid"], signal.SIGCONT)
    for place in (0, 2, 3, 4):
        requests[place].wait_end(30 * SCALE)
        check(requests[place].status == 200, "200", requests[place].status, bytes(requests[place].body))
        check(requests[place].json()["choices"][0]["token_ids"] == alone[place], "as if it were alone", place, alone[place], requests[place].json())
    check(daemon.status()["engine"]["generation"] == status["generation"], "by the same engine", daemon.status())
    daemon.alive(fake=False)


@test("real_engine_gives_embeddings")
def embeddings(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    texts = ["one two three", "one two three", "something else entirely", "x " * 100]
    reply = daemon.request("POST", "/v1/embeddings", {"input": texts}).wait_end(60 * SCALE)
    check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
    rows = [row["embedding"] for row in reply.json()["data"]]
    check(len(rows) == 4 and all(len(row) == len(rows[0]) > 8 for row in rows), "one vector a text", [len(row) for row in rows])
    for row in rows:
        check(abs(sum(value * value for value in row) - 1) < 1e-3, "of length 1", row[:4])
    check(rows[0] == rows[1] and rows[0] != rows[2], "the same text, the same vector", rows[0][:4], rows[2][:4])
    alone = daemon.request("POST", "/v1/embeddings", {"input": texts[3]}).wait_end(60 * SCALE)
    check(alone.json()["data"][0]["embedding"] == rows[3], "whoever runs beside it", rows[3][:4])
    daemon.alive(fake=False)
