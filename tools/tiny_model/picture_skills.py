# Pictures: one shape of one colour at one place, and what is asked about it. Not here: drawing it (drawing.py).
import colorsys
import math

import strings
from phrases import TELL, WHAT, asked, pick
from skills import Turn, article

# hue in degrees, saturation and value, each from and to; between the names lies what nobody would name for sure.
COLOURS = {"red": ((-7, 7), (0.75, 1), (0.72, 1)), "orange": ((24, 38), (0.85, 1), (0.9, 1)), "yellow": ((50, 61), (0.75, 1), (0.9, 1)),
           "green": ((95, 145), (0.6, 1), (0.45, 1)), "blue": ((214, 246), (0.65, 1), (0.5, 1)), "purple": ((270, 302), (0.55, 1), (0.42, 0.8)),
           "pink": ((325, 351), (0.25, 0.6), (0.95, 1)), "brown": ((14, 31), (0.55, 0.9), (0.35, 0.58)), "black": ((0, 360), (0, 0.3), (0, 0.1)),
           "white": ((0, 360), (0, 0.03), (0.95, 1)), "grey": ((0, 360), (0, 0.05), (0.42, 0.68))}
SHAPES = ["circle", "square", "triangle", "star", "cross", "rectangle"]
ACROSS, DOWN = ["left", "middle", "right"], ["top", "middle", "bottom"]
PLACES = [(x, y) for y in range(3) for x in range(3)]
SIDES = (28, 1000)          # pixels
THINNEST = 1.6              # long side by short side
LEAST_RADIUS = 0.145        # of the long side, about 9 of the encoder's 64 pixels: of smaller shapes it learns too little in its time


def where(place):
    x, y = place
    if place == (1, 1):
        return "in the middle"
    if y == 1:
        return f"on the {ACROSS[x]}"
    return f"at the {DOWN[y]}" + (f" {ACROSS[x]}" if x != 1 else "")


def shade(rng, name):
    hue, saturation, value = (rng.uniform(*between) for between in COLOURS[name])
    return tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue % 360 / 360, saturation, value))


def background(rng, picture):
    """One colour, or two that flow into each other; neither is near the shape's."""
    def one():
        while True:
            roll = rng.random()
            rgb = (255, 255, 255) if roll < 0.4 else shade(rng, rng.choice(list(COLOURS))) if roll < 0.75 else tuple(rng.randrange(256) for _ in range(3))
            dark_beside_bars = picture["width"] != picture["height"] and max(rgb) < 60
            if not dark_beside_bars and math.dist(rgb, picture["rgb"]) > 110:
                return rgb
    first = one()
    return (first, one() if rng.random() < 0.12 else first)


def size(rng, held):
    while True:
        long = round(math.exp(rng.uniform(math.log(SIDES[0]), math.log(SIDES[1]))))
        short = long if rng.random() < 0.6 else round(long / rng.uniform(1, THINNEST))
        width, height = (long, short) if rng.random() < 0.6 else (short, long)
        if short >= SIDES[0] and strings.held_out(f"size {width}x{height}") == held:
            return width, height


def held_combination(colour, shape, place):
    return strings.held_out(f"{colour} {shape} {where(place)}")


def drawn(rng, held=False):
    """A picture as drawing.py takes it. What tests show has a colour at a shape at a place, and a size, that training never shows."""
    while True:
        colour, shape, place = rng.choice(list(COLOURS)), rng.choice(SHAPES), rng.choice(PLACES + [(1, 1)])
        if held_combination(colour, shape, place) == held:
            break
    picture = {"colour": colour, "shape": shape, "place": place, "rgb": shade(rng, colour)}
    picture["width"], picture["height"] = size(rng, held)
    short, long = sorted((picture["width"], picture["height"]))
    most = 0.46 if place == (1, 1) else 0.24
    radius = picture["radius"] = rng.uniform(LEAST_RADIUS * long / short, most) * short

    def centre(third, side):
        low = max(0.14, (radius + 1) / side)
        return side * (rng.uniform(0.44, 0.56) if third == 1 else rng.uniform(low, max(low, 0.28)) if third == 0 else 1 - rng.uniform(low, max(low, 0.28)))
    picture["centre"] = [centre(third, side) for third, side in zip(place, (picture["width"], picture["height"]))]
    if radius > 0.4 * short:
        picture["centre"] = [picture["width"] / 2, picture["height"] / 2]
    picture["turn"] = 0.0 if rng.random() < 0.6 else rng.uniform(-0.14, 0.14)       # radians
    if shape in ("triangle", "star") and rng.random() < 0.15:
        picture["turn"] = rng.uniform(0, 2 * math.pi)
    picture["thickness"] = rng.uniform(0.28, 0.4)      # of a cross's arms
    picture["flatness"] = rng.uniform(0.35, 0.6)       # short by long side of a rectangle
    picture["upright"] = rng.random() < 0.4
    picture["softness"] = rng.choice((0.01, 1, 1, 1, 2))    # pixels of an edge
    picture["noise"] = rng.choice((0, 0, 0, 0, rng.uniform(0, 14)))    # deviation
    picture["background"] = background(rng, picture)
    picture["seed"] = rng.getrandbits(32)
    return picture


ALL = ["What is in the picture?", "What do you see?", "Describe the picture.", "What is this?", "What does the picture show?",
       "What can you see in the picture?",
       "[Describe|Name|Explain] [this|the|my] [picture|image|photo].", "[What is|What's] [in|on] [this|the|my] [picture|image|photo|drawing][?|]",
       "[Look at|See] the [picture|image]. What is [it|in it|there]?",
       "[Tell me|Say|I want to know] what [you see|is in the picture|the image shows|is drawn][.|]",
       "What [does|do] [this|the] [image|drawing|photo] show?", "What [did I draw|is drawn here|have I drawn|is shown here]?",
       "[What|Which thing] is [there|here|to be seen] in the [picture|image]?", "[And|So] what is in this [picture|image]?",
       "[Can|Could] you [describe|tell me what is in] [the|this] [picture|image]?", "Picture?", "What do you see [here|in this picture|in it|there]?",
       "~What's in this image?", "~Please describe this image.", "~Tell me what you see in the picture.", "~What is shown in the picture?",
       "~What can you see here?"]
COLOUR = ["What colour is the shape?", "What colour is it?", "Which colour is the {s}?", "What colour is the {s}?", "What colour does the {s} have?",
          "[Tell me|Say|Name] the [colour|color][.| of the shape.| of it.]",
          "[What|Which] [colour|color] [is|has] [it|the shape|the {s}|the thing|this|this {s}|the figure][?| in the picture?| in this image?]",
          TELL + " the [colour|color] of the [shape|{s}|figure] in the picture.",
          WHAT + " the [colour|color] of the [shape|{s}|thing]?", "The [colour|color] of [it|the {s}|the shape]?",
          "[Is it|Is the {s}] of [which|what] colour?", "[And|So] [what|which] colour is [it|that|the {s}]?", "The {s} [has|is] [what|which] colour?",
          "In [what|which] colour is [it|the {s}|the shape]?", "~What is the colour of the {s} in the picture?", "~What color is this shape?",
          "~Which color does the {s} have?", "~Name the colour that you see."]
SHAPE = ["What shape is it?", "Which shape is in the picture?", "What shape do you see?", "What shape is in the picture?",
         "[Tell me|Say|Name] the shape[.| in the picture.| in the image.]",
         "[What|Which] [shape|form|figure] [is it|is this|is that|do you see|is there|is shown|has it][?| in the picture?]",
         WHAT + " the shape [in the picture|in this image|of it|of the thing|here]?", "[What|Which] kind of shape is [it|this|in the picture|there]?",
         "[Which|What] [shape|form] [does|has] the {c} thing[?| have?]", "[Is it|Is this] a circle or [a square|a star|something else]?",
         "[And|So] [what|which] shape is [it|that|this]?", "The shape?", "[What|Which] shape is {c}?", "What is the {c} [thing|shape|figure]?",
         "~What shape is shown in the picture?", "~Which shape can you see?", "~What is the shape of the {c} thing?", "~Which form is it?"]
PLACE = ["Where is it?", "Where is the {s}?", "Where is the shape?", "Where in the picture is it?",
         "[Tell me|Say|Do you know] where [it|the {s}|the shape] is[.| in the picture.]",
         "Where [in|on] the [picture|image] [is|do you see] [it|the {s}|the shape|the {c} {s}]?",
         "[At what|In which|On which] [place|part|side|corner] [is it|is the {s}|is the shape]?",
         "Where [do you see|can I find|did I draw|do I find|have you seen] [it|the {s}|the shape]?",
         TELL + " the [place|position] of the [shape|{s}] in the picture.", WHAT + " the [place|position] of the [shape|{s}]?",
         "[And|So] where is [it|the {s}|that]?", "The [place|position] of [it|the {s}]?",
         "In [which|what] part of the [picture|image] is [it|the {s}]?", "The {s} is where?", "Where is the {c} [thing|shape|{s}]?",
         "~Where is the {s} in the picture?", "~In what place is the {s}?", "~Where can you see the shape?", "~What is the position of the {c} {s}?"]
THINK = "I look at the picture."
NO_PICTURE = "I see no picture."


def turn(rng, question, picture, held, shown):
    colour, shape, place = picture["colour"], picture["shape"], where(picture["place"])
    phrases, answer, expect = {"all": (ALL, f"{article(colour).capitalize()} {shape} {place}.", f"{colour} {shape} {place}."),
                               "colour": (COLOUR, f"It is {colour}.", f"{colour}."), "shape": (SHAPE, f"It is {article(shape)}.", f"{article(shape)}."),
                               "place": (PLACE, f"It is {place}.", f"{place}.")}[question]
    text = pick(rng, phrases, held).format(s=shape, c=colour)
    return Turn(asked(rng, text, held), answer, THINK, expect=expect, kind="picture", picture=picture if shown else None)


def look(rng, held=False, question=None):
    """A question with a picture, in training mostly with more about the same."""
    picture = drawn(rng, held)
    if held:
        return [turn(rng, question, picture, True, True)]
    questions = ["all", "colour", "shape", "place"]
    rng.shuffle(questions)
    return [turn(rng, one, picture, False, at == 0) for at, one in enumerate(questions[:rng.choice((1, 2, 3))])]


def no_picture(rng, held=False):
    text = pick(rng, rng.choice((ALL, ALL, COLOUR, SHAPE, PLACE)), held)
    if "picture" not in text and "image" not in text and "[" not in text and rng.random() < 0.7 and not held:
        text = text.rstrip("?.") + rng.choice((" in the picture?", " in the image?", " in my picture?"))
    text = text.format(s=rng.choice(SHAPES + ["shape"]), c=rng.choice(list(COLOURS)))
    return Turn(asked(rng, text, held), NO_PICTURE, "There is no picture.", expect=NO_PICTURE, kind="no picture")
