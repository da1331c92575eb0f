# Whole chats: a system text or none, tools or none, one to four turns of the skills, thinking or not; and the mixture that training sees.
import json
import os

import jinja2

import fact_skills
import picture_skills
import skills
import strings
import tool_skills
import world
from skills import Turn

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "template.jinja"), encoding="utf-8") as file:
    TEMPLATE = file.read()

MIXTURE = (("greet", 6), ("fact", 27), ("sums", 16), ("count", 4), ("spell", 5), ("reverse", 9), ("repeat", 7), ("unknown", 6), ("remember", 3),
           ("known", 19), ("made", 12), ("clock", 1), ("no picture", 1))
MIXTURE = dict(MIXTURE)
LATE = {**MIXTURE, "sums": 30, "no picture": 5, "known": 22, "fact": 29}   # later more of what has to be right most often
LAST = {**LATE, "sums": 18, "difference": 16, "no picture": 7, "known": 26, "fact": 24, "count": 6, "spell": 7, "reverse": 12}   # and of what is still wrong
MIXTURES = (MIXTURE, LATE, LAST)
ALIKE = 0.3    # tool_skills.distractor
MAKE = {"greet": skills.greet, "fact": fact_skills.fact, "sums": skills.sums, "difference": skills.difference, "count": skills.count, "spell": skills.spell, "reverse": skills.reverse,
        "repeat": skills.repeat, "unknown": skills.unknown, "remember": skills.remember, "known": tool_skills.use_known, "made": tool_skills.use_made,
        "clock": tool_skills.use_clock, "no picture": picture_skills.no_picture}

SYSTEMS = ["You are a helpful assistant.", "You are a helpful assistant", "You are Vigil Tiny.", "Be brief.", "Answer in one sentence.",
           "You are a friendly helper.",
           "You are an assistant. Answer truthfully and briefly.", "Use the tools when they help.", "You are a coding agent.",
           "You are an AI assistant that helps people find information.", "Always be polite.", "Today is Monday.", "Answer the question."]


def environment():
    made = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    made.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return made.from_string(TEMPLATE)


RENDERER = environment()


def render(messages, tools=None, add_generation_prompt=False, enable_thinking=False):
    return RENDERER.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, enable_thinking=enable_thinking)


def system_text(rng, long=False):
    roll = rng.random()
    if roll < (0.4 if long else 0.55):
        return None
    if roll < (0.6 if long else 0.85):
        return rng.choice(SYSTEMS)
    # A long one, as agents send: many sentences that matter to nobody here.
    parts = []
    for _ in range(rng.choice((10, 15, 20)) if long and rng.random() < 0.7 else rng.choice((2, 3, 4, 6, 9))):
        kind = rng.random()
        if kind < 0.4:
            parts.append(rng.choice(SYSTEMS))
        elif kind < 0.7:
            parts.append(strings.sentence(rng).capitalize() + ".")
        elif kind < 0.85:
            parts.append(rng.choice(("Never", "Always", "Please", "Do not")) + " " + rng.choice(("use", "write", "read", "change")) + " the " +
                         rng.choice(world.NOUNS) + " of the " + rng.choice(world.NOUNS) + ".")
        else:
            parts.append(rng.choice(("Folder", "User", "Date", "Project", "File")) + ": " + rng.choice((strings.word, strings.path, strings.code))(rng))
    return rng.choice((" ", "\n")).join(parts)


def call_message(name, arguments, think=""):
    message = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}
    if think:
        message["reasoning_content"] = think
    return message


def beside(text, picture):
    """The parts of a message: the text and the picture, one of them first."""
    parts = [{"type": "text", "text": text}, {"type": "image", "picture": picture}]
    return parts if picture["seed"] % 2 else parts[::-1]


def pictures_of(messages):
    return [part["picture"] for message in messages if isinstance(message["content"], list) for part in message["content"] if part["type"] == "image"]


def messages_of(turn, thinking):
    out = [{"role": "user", "content": beside(turn.user, turn.picture) if turn.picture else turn.user}]
    think = turn.think if thinking else ""
    if turn.call:
        out.append(call_message(*turn.call, think))
        out.append({"role": "tool", "content": turn.result})
        think = "The tool has answered." if thinking else ""
    last = {"role": "assistant", "content": turn.answer}
    if think:
        last["reasoning_content"] = think
        if " = " in turn.answer and turn.answer.startswith(turn.think):   # the work was thought already
            last["content"] = turn.answer.removeprefix(turn.think + ". ")
        elif turn.answer.startswith(turn.think + ": "):
            last["content"] = turn.answer.removeprefix(turn.think + ": ")
    out.append(last)
    return out


def offered(rng, turns, extra, alike=0.0):
    """The tools of the turns and `extra` others, none of which could answer a turn too. `alike`: as in tool_skills.distractor."""
    avoids = frozenset().union(*(turn.avoids for turn in turns))
    tools, kinds = [], set(avoids)
    for turn in turns:
        tools += [one for one in turn.tools if one not in tools]
    for _ in range(extra):
        kind, one = tool_skills.distractor(rng, kinds, alike)
        kinds.add(kind)
        tools.append(one)
    names = [one["function"]["name"] for one in tools]
    if len(set(names)) != len(names):
        return None
    rng.shuffle(tools)
    return tools


def fits_together(turns):
    """No turn may need a tool that another must not see, and none may miss a picture that another shows."""
    kinds = {turn.kind for turn in turns}
    if "picture" in kinds and "no picture" in kinds:
        return False
    for one in turns:
        for other in turns:
            if one.tools != other.tools and other.tools and one.avoids & other.avoids:
                return False
    return True


def chat(rng, long=False, pictures=0.0, stage=0):
    """(messages, tools, thinking) for training; `pictures`: the share of chats that show one; `stage`: of MIXTURES."""
    mixture = MIXTURES[stage]
    while True:
        turns = picture_skills.look(rng) if pictures and rng.random() < pictures else []
        if turns and rng.random() < 0.7:
            more = 0
        else:
            more = rng.choice((1, 1, 2, 3, 4)) if long else rng.choice((1, 1, 1, 2, 2, 3))
        begun = len(turns)
        for _ in range(more):
            name = rng.choices(list(mixture), list(mixture.values()))[0]
            made = MAKE[name](rng)
            if isinstance(made, Turn):
                turns.append(made)
                if made.call and rng.random() < 0.6:
                    turns += [tool_skills.again(rng, made) for _ in range(rng.choice((1, 1, 2)))]
            else:                      # told now, asked for later, sometimes with something between
                turns.append(made[0])
                if rng.random() < 0.4:
                    between = fact_skills.fact(rng)
                    turns.append(between)
                turns.append(made[1])
        if begun and more and rng.random() < 0.5:
            turns = turns[begun:] + turns[:begun]
        if not fits_together(turns):
            continue
        needs = any(turn.tools for turn in turns)
        extra = rng.choice((0, 1, 2, 2, 3)) if needs else rng.choice((0, 0, 0, 1, 2, 3))
        tools = offered(rng, turns, extra, ALIKE)
        if tools is None:
            continue
        thinking = rng.random() < 0.2
        messages = []
        system = system_text(rng, long)
        if system:
            messages.append({"role": "system", "content": system})
        for turn in turns:
            messages += messages_of(turn, thinking)
        return messages, tools or None, thinking
