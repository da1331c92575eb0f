"""The bundled model through the daemon and its real children: a greeting, a fact, a sum, thinking, a tool call with its result, and a picture. One
question of each; how often it is right over many is tools/tiny_model/evaluate's business."""
import base64
import json
import os

from client import SCALE, check
from harness import SOURCE
from registry import test
from vocabulary import Metadata

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
READ = {"type": "function", "function": {"name": "read_file", "description": "Read a file", "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}


def ask(daemon, messages, **fields):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 120, **fields}
    reply = daemon.request("POST", "/v1/chat/completions", json.dumps(body).encode()).wait_end(60 * SCALE)
    check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
    return reply.json()["choices"][0]


def says(daemon, question, expected, **fields):
    choice = ask(daemon, question, **fields)
    check(choice["finish_reason"] == "stop" and expected in choice["message"]["content"], f"{question}: {expected}", choice)
    return choice["message"]


@test("the_bundled_model_answers", limit_s=120)
def answers(case):
    daemon = case.daemon(None, config={"model": ""}, engine={"stop_s": 5})
    says(daemon, "Hello", "How can I help you?")
    says(daemon, "What is the capital of France?", "Paris")
    says(daemon, "What is 27 + 35?", "62")
    says(daemon, "What is the capital of France?", "Paris", tools=[WEATHER, READ])
    thought = says(daemon, "What is 27 + 35?", "62", chat_template_kwargs={"enable_thinking": True})
    check("7+5=12" in thought["reasoning_content"], "it thinks when asked to", thought)
    daemon.alive(fake=False)


@test("the_bundled_model_calls_a_tool_and_uses_its_result", limit_s=120)
def calls(case):
    daemon = case.daemon(None, config={"model": ""}, engine={"stop_s": 5})
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    choice = ask(daemon, messages, tools=[READ, WEATHER])
    called = choice["message"].get("tool_calls", [])
    check(choice["finish_reason"] == "tool_calls" and len(called) == 1, "one call", choice)
    check(called[0]["function"]["name"] == "get_weather" and json.loads(called[0]["function"]["arguments"]) == {"city": "Paris"}, "the right one", called)
    messages += [choice["message"], {"role": "tool", "tool_call_id": called[0]["id"], "content": "18 degrees, sunny"}]
    says(daemon, messages, "18 degrees, sunny", tools=[READ, WEATHER])
    daemon.alive(fake=False)


def with_picture(question):
    with open(os.path.join(SOURCE, "docs", "red-circle.png"), "rb") as file:
        url = "data:image/png;base64," + base64.b64encode(file.read()).decode()
    return [{"role": "user", "content": [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": url}}]}]


@test("the_bundled_model_sees_a_picture", limit_s=120)
def sees(case):
    daemon = case.daemon(None, config={"model": ""}, engine={"stop_s": 5})
    says(daemon, with_picture("What is in the picture?"), "red circle in the middle")
    says(daemon, with_picture("What colour is it?"), "red")
    said = says(daemon, "What is in the picture?", "picture")
    check("circle" not in said["content"], "nothing is seen where no picture is", said)
    seen = daemon.status()["vision"]
    check((seen["state"], seen["generation"]) == ("ready", 1), "one vision child for all", seen)


@test("the_bundled_eyes_rows_count_in_every_dialect", limit_s=120)
def counted(case):
    """16 rows a picture: usage, the ids that are given back and the first event of a message are those of the prompt that was sent."""
    daemon = case.daemon(None, config={"model": ""}, engine={"stop_s": 5})

    def post(path, **body):
        reply = daemon.request("POST", path, json.dumps({"temperature": 0, **body}).encode()).wait_end(60 * SCALE)
        check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
        return [json.loads(line[6:]) for line in bytes(reply.body).decode().split("\n") if line.startswith("data: {")] if body.get("stream") else reply.json()
    messages = with_picture("What is in the picture?")
    text, picture = messages[0]["content"]
    whole = post("/v1/chat/completions", messages=messages, max_tokens=4, return_token_ids=True)
    ids, tokens = whole["prompt_token_ids"], whole["usage"]["prompt_tokens"]
    check(len(ids) == tokens and max(ids.count(one) for one in set(ids)) == 16, "the ids that were sent", ids, tokens)
    streamed = post("/v1/chat/completions", messages=messages, max_tokens=4, return_token_ids=True, stream=True)
    check(streamed[0]["prompt_token_ids"] == ids, "in a stream too", streamed[0])
    url = picture["image_url"]["url"]
    source = {"type": "base64", "media_type": "image/png", "data": url.split(",")[1]}
    events = post("/v1/messages", messages=[{"role": "user", "content": [text, {"type": "image", "source": source}]}], max_tokens=4, stream=True)
    check(events[0]["message"]["usage"]["input_tokens"] == tokens, "a message's first event", events[0])
    parts = [{"type": "input_text", "text": text["text"]}, {"type": "input_image", "image_url": url}]
    response = post("/v1/responses", input=[{"role": "user", "content": parts}], max_output_tokens=16)
    check(response["usage"]["input_tokens"] == tokens, "a response", response["usage"])


@test("the_bundled_projector_is_for_the_bundled_model_alone", limit_s=60)
def alone(case):
    """A model that the user names gets no projector unasked, nor does an engine of his own."""
    body = json.dumps({"messages": with_picture("What is in the picture?")}).encode()
    named = case.daemon(None, config={"model": os.path.join(SOURCE, "models", "vigil-tiny.gguf")}, engine={"stop_s": 5})
    for daemon in (named, case.daemon(config={"model": ""})):
        check(daemon.status()["vision"]["state"] == "absent", "no vision child", daemon.status()["vision"])
        reply = daemon.request("POST", "/v1/chat/completions", body).wait_end(20 * SCALE)
        check(reply.status == 400 and reply.json()["error"]["code"] == "image_invalid", "no pictures", reply.status, bytes(reply.body))
    named.alive(fake=False)


@test("the_bundled_model_gets_the_prompt_it_was_trained_on", limit_s=60)
def prompt(case):
    daemon = case.daemon(None, config={"model": ""}, engine={"stop_s": 5})
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"},
                {"role": "user", "content": "Read a.txt"}]
    timer = {"type": "function", "function": {"name": "set_timer", "parameters": {
        "type": "object", "properties": {"minutes": {"type": "integer"}, "label": {"type": "string"}}, "required": ["minutes"]}}}
    wanted = ("<|im_start|>system\nBe brief.\nTools:\nread_file(path) Read a file\nset_timer(minutes:integer)<|im_end|>\n"
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nRead a.txt<|im_end|>\n<|im_start|>assistant\n")
    pieces = Metadata(os.path.join(SOURCE, "models", "vigil-tiny.gguf")).values["tokenizer.ggml.tokens"]
    for thinking in (False, True):
        body = {"messages": messages, "tools": [READ, timer], "max_tokens": 1, "return_token_ids": True, "chat_template_kwargs": {"enable_thinking": thinking}}
        reply = daemon.request("POST", "/v1/chat/completions", json.dumps(body).encode()).wait_end(60 * SCALE).json()
        text = "".join(pieces[one] for one in reply["prompt_token_ids"]).replace("\u0120", " ").replace("\u010a", "\n")
        check(text == wanted + ("<think>\n" if thinking else ""), "the template's text", text)
    daemon.alive(fake=False)
