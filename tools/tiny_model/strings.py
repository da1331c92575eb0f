# Strings to copy, and what is held out: whatever a test uses was never trained on. Not here: sentences (skills.py).
import zlib

import world

ONSETS = ["b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "y", "z", "br", "ch", "cl", "cr", "dr", "fl", "fr", "gl",
          "gr", "kr", "pl", "pr", "qu", "sh", "sk", "sl", "sm", "sn", "sp", "st", "str", "sw", "th", "tr", "tw", "wh", ""]
VOWELS = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "u", "ai", "ea", "ee", "ie", "io", "oa", "oo", "ou", "y"]
CODAS = ["", "", "", "b", "ck", "d", "f", "g", "k", "l", "ll", "m", "n", "nd", "ng", "nt", "p", "r", "rd", "rk", "rn", "s", "ss", "st", "t", "th", "x", "z"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENDINGS = ["txt", "md", "json", "csv", "log", "py", "cpp", "html", "conf", "yaml", "h", "sh", "toml", "xml"]


def held_out(text, share=8):
    """One in `share` strings belongs to the test, and always the same ones."""
    return zlib.crc32(("held:" + text).encode()) % share == 0


def fitting(rng, held, make):
    """A string of `make` that belongs to the test (held) or to training; None: either."""
    while True:
        text = make(rng)
        if held is None or held_out(text) == held:
            return text


def syllables(rng, count):
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count))


def word(rng):
    roll = rng.random()
    if roll < 0.55:
        return syllables(rng, rng.choice((1, 1, 2, 2, 3)))
    if roll < 0.75:
        return rng.choice(world.NOUNS)
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 7)))


def spelled(rng):
    """Three to eight small letters: for spelling and reversing."""
    while True:
        text = word(rng)
        if 3 <= len(text) <= 8:
            return text


def name(rng):
    text = syllables(rng, rng.choice((1, 2, 2, 2, 3))).capitalize()
    return text if len(text) > 1 else name(rng)


def place(rng):
    roll = rng.random()
    if roll < 0.75:
        return name(rng)
    if roll < 0.9:
        return rng.choice(("New", "San", "Port", "Saint", "Bad", "Old", "North", "East", "Lake", "Fort", "El", "Los")) + " " + name(rng)
    return name(rng) + " " + rng.choice(("City", "Town", "Falls", "Bay", "Hill", "Beach", "am See"))


def code(rng):
    """An identifier: A-1234, x7q9, 48213, ab_12."""
    roll = rng.random()
    if roll < 0.35:
        return str(rng.randint(0, 10 ** rng.randint(1, 6)))
    if roll < 0.6:
        return "".join(rng.choice(LETTERS.upper()) for _ in range(rng.randint(1, 4))) + rng.choice(("-", "", "_", "-")) + str(rng.randint(0, 9999))
    if roll < 0.8:
        return "".join(rng.choice(LETTERS.upper()) for _ in range(rng.randint(2, 5)))
    return "".join(rng.choice(LETTERS + "0123456789") for _ in range(rng.randint(3, 8)))


def path(rng):
    text = rng.choice((word, word, code))(rng)
    if rng.random() < 0.15:
        text += rng.choice("_-") + word(rng)
    if rng.random() < 0.9:
        text += "." + rng.choice(ENDINGS)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        text = rng.choice((word(rng), rng.choice(("src", "docs", "home", "tmp", "etc", "data", "lib", "var", "work", "notes")))) + "/" + text
    return rng.choice(("", "", "", "/", "./", "~/")) + text


def phrase(rng):
    """Two to six words of any kind."""
    roll = rng.random()
    if roll < 0.35:
        return sentence(rng)
    makers = (word, word, word, name, code)
    return " ".join(rng.choice(makers)(rng) for _ in range(rng.choice((2, 2, 3, 3, 4))))


def sentence(rng):
    text = "the " + (rng.choice(world.ADJECTIVES) + " " if rng.random() < 0.6 else "") + rng.choice(world.NOUNS) + " " + rng.choice(world.VERBS)
    if rng.random() < 0.4:
        text += " " + rng.choice(("in the", "on the", "under the", "near the", "with a", "like a")) + " " + rng.choice(world.NOUNS)
    return text if rng.random() < 0.7 else text.capitalize()


def expression(rng):
    def number():
        return str(rng.randint(0, 10 ** rng.choice((1, 2, 2, 3, 4))))
    blank = rng.choice((" ", " ", " ", ""))
    text = number() + blank + rng.choice("+-*/") + blank + number()
    roll = rng.random()
    if roll < 0.15:
        text += blank + rng.choice("+-*/") + blank + number()
    elif roll < 0.25:
        text = "(" + text + ")" + blank + rng.choice("*/+-") + blank + number()
    elif roll < 0.3:
        text = number() + "." + str(rng.randint(0, 99)) + blank + rng.choice("+-*/") + blank + number()
    return text


def clock(rng):
    text = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    return text + rng.choice(("", "", ":" + f"{rng.randint(0, 59):02d}"))


def anything(rng):
    return rng.choice((word, name, name, place, code, path, phrase, expression))(rng)
