"""The real engine held to shapes that meet: tools beside response_format, forced calls of a model that thinks. Single shapes are in test_engine.py."""
import json
import os
import struct

from client import SCALE, check
from harness import MODEL
from registry import test

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["city", "days"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "tells it", "parameters": SCHEMA}}
ANSWER = {"type": "object", "properties": {"word": {"enum": ["yes", "no"]}}, "required": ["word"], "additionalProperties": False}
SHAPE = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": ANSWER}}
# Opens the thinking itself, as the templates of models that always think do.
TEMPLATE = ("{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}For each call: <tool_call>\n{\"name\": …, \"arguments\": …}\n</tool_call>"
            "<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n"
            "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n"
            "{% endif %}{% endif %}")


def thinking_model(folder):
    """The bundled model with two words of its vocabulary turned into the marks of thinking, each as long as its word, so that nothing moves."""
    with open(MODEL, "rb") as file:
        data = bytearray(file.read())
    kinds = data.index(b"tokenizer.ggml.token_type") + len(b"tokenizer.ggml.token_type") + 4 + 4 + 8  # type, element type, count
    at = data.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 4 + 4
    count = struct.unpack_from("<Q", data, at)[0]
    at += 8
    turned = {"▁abou".encode(): b"<think>", "▁about".encode(): b"</think>"}
    for token in range(count):
        size = struct.unpack_from("<Q", data, at)[0]
        piece = bytes(data[at + 8:at + 8 + size])
        if piece in turned:
            data[at + 8:at + 8 + size] = turned.pop(piece)
            struct.pack_into("<i", data, kinds + 4 * token, 3)  # control
        at += 8 + size
    assert not turned, turned
    path = os.path.join(folder, "thinking.gguf")
    with open(path, "wb") as file:
        file.write(data)
    with open(os.path.join(folder, "thinking.jinja"), "w", encoding="utf-8") as file:
        file.write(TEMPLATE)
    return {"model": path, "chat_template_file": os.path.join(folder, "thinking.jinja")}


def choice(daemon, **fields):
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 700, **fields}
    reply = daemon.request("POST", "/v1/chat/completions", json.dumps(body).encode()).wait_end(90 * SCALE)
    check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
    return reply.json()["choices"][0]


def is_call(given):
    calls = given["message"].get("tool_calls") or []
    if given["finish_reason"] != "tool_calls" or not calls:
        return False
    for call in calls:
        value = json.loads(call["function"]["arguments"])
        check(call["function"]["name"] == "get_weather" and set(value) == {"city", "days"} and len(value["city"]) <= 10 and value["days"] in range(1, 10),
              "a call that fits its schema", given)
    return True


def is_answer(given):
    if given["finish_reason"] != "stop" or given["message"].get("tool_calls"):
        return False
    check(json.loads(given["message"]["content"]) in ({"word": "yes"}, {"word": "no"}), "an answer that fits the schema", given)
    return True


@test("real_engine_tools_beside_a_shape", limit_s=120)
def both(case):
    daemon = case.daemon(None, engine={"stop_s": 5})
    seen = set()
    for seed in range(12):
        given = choice(daemon, tools=[TOOL], response_format=SHAPE, parallel_tool_calls=False, seed=seed)
        call, answer = is_call(given), is_answer(given)
        check(call != answer, "a call or an answer of that shape, nothing else", given)
        seen.add("call" if call else "answer")
    check(seen == {"call", "answer"}, "both are open", seen)
    for wanted in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        check(is_call(choice(daemon, tools=[TOOL], tool_choice=wanted, response_format=SHAPE, parallel_tool_calls=False, seed=1)), "a forced call comes before a shape")
    check(is_answer(choice(daemon, tools=[TOOL], tool_choice="none", response_format=SHAPE, seed=1)), "no call: the shape alone")
    daemon.alive(fake=False)


@test("real_engine_forced_calls_behind_thinking", limit_s=120)
def thinking(case):
    daemon = case.daemon(None, config=thinking_model(case.folder), engine={"stop_s": 5})
    for seed in range(3):
        given = choice(daemon, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, seed=seed)
        check(is_call(given), "a call behind the thinking", given)
        check(given["message"].get("reasoning_content"), "which is shown as thinking", given)
        given = choice(daemon, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, reasoning_effort="none", seed=seed)
        check(is_call(given) and not given["message"].get("reasoning_content"), "a call without thinking", given)
        given = choice(daemon, response_format=SHAPE, max_thinking_tokens=20, seed=seed)
        check(is_answer(given) and given["message"].get("reasoning_content"), "a shape behind thinking within its budget", given)
    daemon.alive(fake=False)
