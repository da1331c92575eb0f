# The held-out rows of each skill: phrasings, number pairs, strings and tool names that training never shows. Not here: asking (evaluate).
import random

import chats
import fact_skills
import picture_skills
import skills
import tool_skills

# skill: what its rows hold out.
SKILLS = {"greet": "phrasing", "facts": "phrasing", "addition": "numbers, phrasing", "subtraction": "numbers, phrasing", "count": "span, phrasing",
          "spell": "word, phrasing", "reverse": "word, phrasing", "repeat": "string, phrasing", "remember": "string, phrasing", "unknown": "phrasing, string",
          "no tool needed": "phrasing, tools' names", "tool, listed argument": "phrasing", "tool, unseen argument": "argument, phrasing",
          "tool, unseen name": "tool's name, argument, phrasing", "use result": "result", "thinking": "phrasing, numbers",
          "picture, colour": "picture, phrasing", "picture, shape": "picture, phrasing", "picture, place": "picture, phrasing",
          "picture, all three": "picture, phrasing", "no picture": "phrasing"}


def until(make, good):
    while True:
        turn = make()
        if good(turn):
            return turn


def row(skill, rng):
    """{messages, tools, thinking, expect, exact, call}: the last message is the model's to write."""
    thinking = skill == "thinking"
    before = []
    if skill == "greet":
        turn = skills.greet(rng, True)
    elif skill in ("facts", "no tool needed"):
        turn = fact_skills.fact(rng, True) if skill == "facts" or rng.random() < 0.5 else rng.choice((skills.greet, skills.sums))(rng, True)
    elif skill in ("addition", "subtraction"):
        sign = " + " if skill == "addition" else " - "
        turn = until(lambda: skills.sums(rng, True), lambda one: sign in one.expect)
    elif skill == "thinking":
        turn = rng.choice((fact_skills.fact, skills.sums, skills.reverse))(rng, True)
    elif skill.startswith("picture, "):
        turn, = picture_skills.look(rng, True, skill.removeprefix("picture, ").removesuffix(" three"))
    elif skill == "no picture":
        turn = picture_skills.no_picture(rng, True)
    elif skill == "remember":
        first, turn = skills.remember(rng, True)
        before = chats.messages_of(first, False)
    elif skill == "tool, listed argument":
        turn = tool_skills.use_known(rng, True, listed=True, held_name=False)
    elif skill == "tool, unseen argument":
        turn = tool_skills.use_known(rng, True, held_name=False)
    elif skill == "tool, unseen name":
        turn = tool_skills.use_made(rng, True) if rng.random() < 0.7 else tool_skills.use_known(rng, True)
    elif skill == "use result":
        turn = rng.choice((tool_skills.use_known, tool_skills.use_known, tool_skills.use_made))(rng, True)
    else:
        turn = {"count": skills.count, "spell": skills.spell, "reverse": skills.reverse, "repeat": skills.repeat, "unknown": skills.unknown}[skill](rng, True)

    tools = None
    if turn.tools or skill == "no tool needed":
        extra = rng.choice((0, 1, 2, 3)) if turn.tools else rng.choice((1, 2, 3))
        while tools is None:
            tools = chats.offered(rng, [turn], extra)
    messages = [{"role": "system", "content": rng.choice(chats.SYSTEMS)}] if rng.random() < 0.4 else []
    messages += before + chats.messages_of(turn, thinking)
    last = messages.pop()
    call = None
    if turn.call and skill != "use result":
        messages.pop()
        last = messages.pop()
        call = turn.call
    return {"skill": skill, "messages": messages, "last": last, "tools": tools, "thinking": thinking, "call": call, "expect": turn.expect, "exact": turn.exact}


def rows(skill, count, seed=7):
    rng = random.Random(f"{seed} {skill}")
    return [row(skill, rng) for _ in range(count)]
