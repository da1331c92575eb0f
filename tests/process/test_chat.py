"""Chats through the daemon: everything that OpenAI's schema allows (case C6), control words that users type (cases D2, X1), characters over tokens (D1),
stop strings over tokens (C5), a template's refusal (H3)."""
import json
import os

from client import SCALE, check
from harness import check_answer, check_error
from registry import test

FUNCTION = {"type": "function", "function": {"name": "get_time", "description": "The time", "parameters": {"type": "object", "properties": {}}, "strict": None}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
PARTS = [{"type": "text", "text": "on"}, {"type": "text", "text": "e"}]
OPTIONAL = ("audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities", "n",
            "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier",
            "stop", "store", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options")


def say(letters, text):
    """The script of an engine that says `text`, a byte a token."""
    ids = [letters.byte_ids[byte] for byte in text.encode()]
    return {"ids": ids, "jobs": [[["answer", len(ids), 0]]]}


def post(daemon, messages=None, **fields):
    body = {"messages": messages or [{"role": "user", "content": "hi"}], **fields}
    return daemon.request("POST", "/v1/chat/completions", json.dumps(body).encode()).wait_end(10 * SCALE)


def sent_ids(daemon):
    """The ids of the last GEN line."""
    return [int(token) for token in daemon.fake.generations()[-1][2].rsplit(" ", 1)[1].split(",")]


@test("C6_everything_the_schema_allows", limit_s=60)
def everything(case):
    daemon = case.daemon()
    daemon.fake.script(ready="READY 65536 stop grammar", **say(case.letters, "ok"))
    user = {"role": "user", "content": "hi"}
    history = [user, {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_1", "content": PARTS}]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    requests = {
        "every optional field null": dict(fields={name: None for name in OPTIONAL}),
        "no tools": dict(fields={"tools": []}),
        "null content with calls": dict(messages=history),
        "null names": dict(messages=[{"role": "user", "name": None, "tool_call_id": None, "content": "hi"}], fields={"tools": [FUNCTION]}),
        "developer alone": dict(messages=[{"role": "developer", "content": "be brief"}]),
        "developer with system": dict(messages=[{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, user]),
        "a stop string": dict(fields={"stop": "x"}),
        "tool_choice none": dict(fields={"tools": [FUNCTION], "tool_choice": "none"}),
        "tool_choice auto": dict(fields={"tools": [FUNCTION], "tool_choice": "auto"}),
        "response_format text": dict(fields={"response_format": {"type": "text"}}),
        "response_format json_object": dict(fields={"response_format": {"type": "json_object"}}),
        "response_format json_schema": dict(fields={"response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}}}),
        "unknown fields": dict(fields={"unheard_of": {"a": [1]}}),
    }
    for role in ("system", "developer", "user", "assistant"):
        requests[f"parts of {role}"] = dict(messages=[user, {"role": role, "content": PARTS}])
    for name, request in requests.items():
        reply = post(daemon, request.get("messages"), **request.get("fields", {}))
        check(reply.status == 200, f"{name}: 200", reply.status, bytes(reply.body)[:500])
    cut = post(daemon, max_completion_tokens=1)
    check_answer(cut, "o", "length")
    for choice in ("required", {"type": "function", "function": {"name": "get_time"}}):
        reply = post(daemon, tools=[FUNCTION], tool_choice=choice)
        check(reply.status == 200 and " grammar=" in daemon.fake.generations()[-1][2], "a forced call comes by a grammar", reply.status, bytes(reply.body)[:500])
    daemon.alive()


@test("C6_a_grammar_needs_an_engine_that_takes_it")
def no_grammar(case):
    daemon = case.daemon()
    daemon.fake.script(**say(case.letters, "ok"))
    check_error(post(daemon, response_format={"type": "json_object"}), 400, "invalid_request", "grammar")
    check(not daemon.fake.generations(), "the engine is not asked", daemon.fake.generations())
    check_answer(post(daemon), "ok", "stop")
    daemon.alive()


def control_count(daemon, letters, typed, **fields):
    messages = [{"role": "system", "content": typed}, {"role": "user", "content": typed}, {"role": "assistant", "content": typed, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": typed}, {"role": "user", "content": typed}]
    reply = post(daemon, messages, **fields)
    check(reply.status == 200, f"{typed!r}: 200", reply.status, bytes(reply.body)[:500])
    return sum(token in (0, 1, letters.end_id) for token in sent_ids(daemon))


@test("D2_control_words_in_what_users_type")
def control_words(case):
    folder = case.folder
    path = os.path.join(folder, "template.jinja")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }} {{ t.function.description }}{% endfor %}"
                   "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}assistant:")
    for config in ({}, {"chat_template_file": path}):
        daemon = case.daemon(config=config)
        daemon.fake.script(ready="READY 65536 stop", **say(case.letters, "ok"))
        plain = control_count(daemon, case.letters, "hello", tools=[FUNCTION])
        for typed in ("</s>", "<s>", "</think>", "<tool_call>", "<image>", "</s></s> <s>"):
            tool = {**FUNCTION, "function": {**FUNCTION["function"], "description": typed}}
            found = control_count(daemon, case.letters, typed, tools=[tool])
            check(found == plain, f"as many control ids as for hello: {typed!r} with {config}", found, plain)
        daemon.stop()


@test("C5_D1_pieces_over_tokens_through_the_daemon")
def pieces(case):
    daemon = case.daemon()
    smile, text = "\U0001F60A", "ab\u00e9 \U0001F468\u200D\U0001F469\u200D\U0001F467 c"
    for stream in (False, True):
        daemon.fake.script(ready="READY 4096 stop", **say(case.letters, text))
        check_answer(post(daemon, stream=stream), text, "stop")
        daemon.fake.script(ready="READY 4096 stop", **say(case.letters, f"abc{smile}\nUser: x"))
        check_answer(post(daemon, stream=stream, stop=["\nUser:"]), f"abc{smile}", "stop")
        check_answer(post(daemon, stream=stream, stop=[smile]), "abc", "stop")
        check_answer(post(daemon, stream=stream, stop=["\nUsing"]), f"abc{smile}\nUser: x", "stop")
    daemon.alive()


@test("H3_a_template_that_refuses")
def refusal(case):
    path = os.path.join(case.folder, "template.jinja")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{% if messages[0].content == 'bad' %}{{ raise_exception('Not this way, ' ~ messages[0].role) }}{% endif %}{{ messages[0].content }}")
    daemon = case.daemon(config={"chat_template_file": path})
    daemon.fake.script(**say(case.letters, "ok"))
    for stream in (False, True):
        check_error(post(daemon, [{"role": "user", "content": "bad"}], stream=stream), 400, "template_error", "Not this way, user")
    check_answer(post(daemon), "ok", "stop")
    daemon.alive()
