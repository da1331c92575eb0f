# How questions are worded. A phrase that begins with "~" is held out: tests ask with those, training never does. "[a|b]" in a trained phrase is one
# of the alternatives; what such a phrase could say that a held-out one of its list says too, but for "please", case and signs, is never said. Not
# here: the phrases (skills.py, tool_skills.py, picture_skills.py).
import math
import re

TELL = ("[Tell me|Give me|Say|Name|Write|I need|I want to know|Can you tell me|Could you tell me|Do you know|Please tell me|Please give me|Could you say|"
        "Can you name|Let me know|I would like to know|You surely know|Do you remember|Can you give me|Would you tell me|Please say|Show me|I ask for|I forgot]")
WHAT = "[What is|What's|Which is|What was|And what is|So what is|What exactly is|OK, what is|Do you know what is|Hi, what is|Tell me, what is|Say, what is]"

CHOICE = re.compile(r"\[([^\[\]]*)\]")
BEFORE = ["Question: ", "Now: ", "OK. ", "Next question: ", "Good. ", "I want to know: ", "Quick question: ", "Listen: ", "Another one: ", "Hey, ", "Well, ",
          "So: "]


def bare(phrase):
    """What two phrases are compared by."""
    text = re.sub(r"[^\w{}+\- ]", "", phrase.removeprefix("~").lower())
    return " ".join(word for word in text.split() if word != "please")


def weight(phrase):
    """A phrase of many alternatives comes more often than one without, but not as often as all of them would."""
    return 1 + math.log2(math.prod(len(part.split("|")) for part in CHOICE.findall(phrase)))


class Phrases:
    made = {}   # of a list, which is made once

    def __init__(self, phrases):
        self.held = [phrase.removeprefix("~") for phrase in phrases if phrase.startswith("~")]
        self.trained = [phrase for phrase in phrases if not phrase.startswith("~")]
        self.weights = [weight(phrase) for phrase in self.trained]
        self.never = {bare(phrase) for phrase in self.held}

    def trained_one(self, rng):
        while True:
            phrase = rng.choices(self.trained, self.weights)[0]
            said = CHOICE.sub(lambda part: rng.choice(part[1].split("|")), phrase)
            if said == phrase or bare(said) not in self.never:
                return said


def pick(rng, phrases, held):
    key = tuple(phrases)
    if key not in Phrases.made:
        Phrases.made[key] = Phrases(phrases)
    one = Phrases.made[key]
    return rng.choice(one.held) if held else one.trained_one(rng)


def asked(rng, text, held=False):
    """As people type: with or without a question mark, a capital, a polite word."""
    if held:
        return text
    roll = rng.random()
    if roll < 0.2 and text.endswith(("?", ".")):
        text = text[:-1]
    if rng.random() < 0.15:
        text = text[0].lower() + text[1:]
    roll = rng.random()
    if roll < 0.03:
        text = "Please: " + text
    elif roll < 0.06:
        text = "Hi! " + text
    elif roll < 0.08:
        text = text + " Please."
    elif roll < 0.10:
        text = "Hello, " + text[0].lower() + text[1:]
    elif roll < 0.22:
        text = rng.choice(BEFORE) + text
    elif roll < 0.26:
        text = text + rng.choice((" Thanks.", " Thank you!", " Be brief.", " Just the answer."))
    return text
