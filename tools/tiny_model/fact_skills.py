# Questions about facts and their answers. How phrases are written, and which are held out, is phrases.py. Not here: the facts (world.py).
import world
from phrases import TELL, WHAT, asked, pick
from skills import Turn, article, capital_first


def number_phrase(what, of, amount):
    return f"There are {amount} {what} in {of}." if what not in ("wheels", "fingers") else f"{capital_first(of)} has {amount} {what}."


def fact_capital(rng, held):
    country, city = rng.choice(list(world.CAPITALS.items()))
    if rng.random() < 0.7:
        question = pick(rng, [TELL + " the capital of {}.", WHAT + " the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?",
                              "Tell me the capital of {}.", "capital of {}", "Give me the capital of {}.", "What do you know about the capital of {}?",
                              "Say the capital of {}.", "I forgot the capital of {}.", "Where is the government of {}?",
                              "The capital of {}?", "Do you know the capital of {}?", "{}'s capital?",
                              "[What|Which] [city|town] is [the capital in|the capital city of|the main city of] {}?",
                              "[What|Which] is {}'s capital[?| city?]", "[Tell me|Name|Give me] {}'s capital.", "{} has which capital?",
                              "What is the capital city of {}?", "What capital does {} have?", "In {}, [what|which city] is the capital?",
                              "~What city is the capital of {}?", "~Please name the capital of {}.", "~Can you tell me the capital of {}?"], held)
        return question.format(country), f"The capital of {country} is {city}.", city, f"I know the capital of {country}."
    question = pick(rng, ["{} is the capital of which country?", "Of which country is {} the capital?", "What country has {} as its capital?",
                          "Which country's capital is {}?", "{} is a capital. Of what?", "Name the country with the capital {}.",
                          "Tell me the country whose capital is {}.", "[What|Which] country is {} the capital of?",
                          "{} is the capital of which [land|nation]?", "[Name|Give me|Say] the country [of which|where] {} is the capital.",
                          "[Whose|Which country's] capital is {}?", "{} is which country's capital?", "[In which|Of what] country is {} the capital?",
                               "~{} is the capital of what country?", "~Which country has {} as its capital?"], held)
    return question.format(city), f"{city} is the capital of {country}.", country, f"I know which country {city} is the capital of."


def fact_colour(rng, held):
    thing, colour = rng.choice(list(world.COLOURS.items()))
    question = pick(rng, ["What colour is {}?", "What color is {}?", "Which colour does {} have?", "Tell me the colour of {}.",
                          "What is the colour of {}?",
                          "The colour of {}?", "What colour has {}?", "Give me the colour of {}.", "Which color is {}?", "Say the colour of {}.",
                          "Is there a colour for {}?",
                          TELL + " the [colour|color] of {}.", WHAT + " the [colour|color] of {}?", "[What|Which] [colour|color] [does {} have|has {}]?",
                          "{} has [what|which] [colour|color]?", "{} is what colour?",
                          "[Tell me|Say|Do you know] [what|which] [colour|color] {} [is|has].",
                          "Of [what|which] [colour|color] is {}?", "How is {} coloured?",
                              "Do you know what colour {} is?", "~What is the color of {}?", "~Which colour is {}?", "~Name the colour of {}."], held)
    return question.format(thing), f"{capital_first(thing)} is {colour}.", colour, f"I know the colour of {thing}."


def fact_opposite(rng, held):
    pair = rng.choice(world.OPPOSITES)
    one, other = pair if rng.random() < 0.5 else pair[::-1]
    question = pick(rng, ["What is the opposite of {}?", "Opposite of {}?", "Tell me the opposite of {}.", "What's the opposite of {}?",
                          "Name the opposite of {}.",
                          "Which word is the opposite of {}?", "Say the opposite of {}.", "What is not {}, but the opposite?",
                          "I need the opposite of {}.",
                          TELL + " the opposite of {}.", WHAT + " the opposite of {}?", "[What|Which] word [means|has] the opposite of {}?",
                          "{} has [what|which] opposite?", "[Find|Write] the opposite of {}.", "The opposite of {}[?|:]",
                          "{} is the opposite of [what|which word]?",
                          "[What|Which word] is opposite to {}?", "If it is not {}, it is?", "[Is there|Do you have] an opposite of {}?",
                          "{}: what is the opposite?",
                              "~Give me the opposite of {}.", "~What word is the opposite of {}?", "~The opposite of {} is what?"], held)
    return question.format(one), f"The opposite of {one} is {other}.", other, f"I know the opposite of {one}."


def fact_calendar(rng, held):
    kind, names = rng.choice((("day", world.DAYS), ("month", world.MONTHS)))
    at = rng.randrange(len(names))
    if rng.random() < 0.5:
        side, other = "after", names[(at + 1) % len(names)]
    else:
        side, other = "before", names[at - 1]
    question = pick(rng, ["What {k} comes {s} {n}?", "Which {k} is {s} {n}?", "What comes {s} {n}?", "Which {k} comes {s} {n}?",
                          "Tell me the {k} {s} {n}.",
                          "The {k} {s} {n}?", "Give me the {k} {s} {n}.", "Say which {k} comes {s} {n}.", "{s} {n} comes which {k}?",
                          "Which one is {s} {n}?",
                          TELL + " the {k} {s} {n}.", "[What|Which] is the {k} {s} {n}?",
                          "[What|Which] {k} [do we have|do you get|is there] {s} {n}?",
                          "[Tell me|Say|Do you know] [what|which] {k} [comes|is] {s} {n}.", "[And|So] [what|which {k}] [comes|is] {s} {n}?",
                          "{s} {n} [is|comes] [what|which] {k}?", "{k} {s} {n}", "I look for the {k} {s} {n}.",
                              "~What {k} is {s} {n}?", "~Name the {k} {s} {n}.", "~What is the {k} {s} {n}?"], held)
    return question.format(k=kind, s=side, n=names[at]), f"{other} comes {side} {names[at]}.", other, f"I say the {kind}s in order."


def fact_animal(rng, held):
    roll = rng.random()
    if roll < 0.4:
        animal, sound = rng.choice(list(world.SOUNDS.items()))
        question = pick(rng, ["What does {} say?", "What sound does {} make?", "Which sound does {} make?", "How does {} sound?",
                              "Tell me the sound of {}.",
                              "What does {} sound like?", "Say what {} says.", "Give me the sound of {}.", "Make the sound of {}.",
                              TELL + " the sound of {}.", "[What|Which] sound [do you hear from|comes from|is made by] {}?",
                              "How does {} [go|call|speak]?", "[What|Which] [is|was] the [noise|call|cry] of {}?",
                              "{} [says|makes] what?", "[Tell me|Say] [what|which sound] {} makes.",
                              "[What|Which] [noise|noises|sound] [is made by|comes from] {}?",
                              "~What noise does {} make?", "~What is the sound of {}?", "~Which noise does {} make?"], held)
        return question.format(article(animal)), f"{capital_first(article(animal))} says {sound}.", sound, f"I know the sound of {article(animal)}."
    if roll < 0.7:
        animal, young = rng.choice(list(world.YOUNG.items()))
        question = pick(rng, ["What is a young {} called?", "What do you call a young {}?", "What is a baby {} called?",
                              "What is the young of a {} called?",
                              "Name the young of a {}.", "Tell me what a young {} is called.", "A baby {} is called what?",
                              "Which word is there for a young {}?", "Give me the name of a young {}.",
                              TELL + " the [name|word] for a [young|baby|little] {}.",
                              "[How|What] do [people|we|they] call a [young|baby|small] {}?", "[What|Which] [name|word] has a [young|baby] {}?",
                              "What is a [little|small] {} called?", "A [young|little] {} is [what|called what|a what]?",
                              "What is the [baby|child] of a {}?",
                              "~What do you call a baby {}?", "~How is a young {} called?"], held)
        return question.format(animal), f"A young {animal} is called a {young}.", young, f"I know the young of {article(animal)}."
    animal, legs = rng.choice(list(world.LEGS.items()))
    question = pick(rng, ["How many legs does {} have?", "How many legs has {}?", "Tell me how many legs {} has.", "What is the number of legs of {}?",
                          "{} has how many legs?", "Give me the number of legs of {}.", "Count the legs of {}.",
                          "[How many|What number of] legs [does|can|will] {} have?", "{} [walks|goes|stands] on how many legs?",
                          "On how many legs does {} walk?",
                          TELL + " the number of legs of {}.", "[Do you know|Tell me|And] how many legs {} has?", "The legs of {}: how many?",
                          "How many legs [are there on|do you see on|belong to] {}?",
                          "~How many legs are on {}?", "~Say how many legs {} has."], held)
    return question.format(article(animal)), f"{capital_first(article(animal))} has {legs} legs.", legs + " legs", f"I know the legs of {article(animal)}."


def fact_number(rng, held):
    roll = rng.random()
    if roll < 0.45:
        what, of, amount = rng.choice(world.AMOUNTS)
        question = pick(rng, ["How many {} are in {}?", "How many {} does {} have?", "How many {} are there in {}?", "Tell me how many {} {} has.",
                              "Say how many {} are in {}.", "Give me the number of {} in {}.", "The number of {} in {}?",
                              "[How many|What number of] {} [make|make up|fill|are part of|belong to] {}?",
                              "[Do you know|Tell me|Say] how many {} there are in {}.",
                              TELL + " the number of {} in {}.", "How many {} [can you find|do you count|do we have] in {}?",
                              "[What|Which] number of {} has {}?",
                              "~How many {} has {}?", "~What is the number of {} in {}?"], held)
        return question.format(what, of), number_phrase(what, of, amount), amount, f"I know the {what} of {of}."
    if roll < 0.65:
        shape, sides = rng.choice(list(world.SIDES.items()))
        question = pick(rng, ["How many sides does {} have?", "How many sides has {}?", "Tell me how many sides {} has.", "How many corners does {} have?",
                              "Give me the number of sides of {}.", "{} has how many sides?", "Say how many sides {} has.",
                              "[Do you know|Can you say|And] how many sides {} has?", TELL + " the number of sides of {}.",
                              "[What|Which] number of sides [has {}|does {} have]?", "Count the sides of {}.",
                              "How many sides [do you count|can I see|belong] [in|on|to] {}?",
                              "~How many sides are there in {}?", "~What is the number of sides of {}?"], held)
        word = "corners" if "corners" in question else "sides"
        return question.format(article(shape)), f"{capital_first(article(shape))} has {sides} {word}.", sides, f"I know the shape {shape}."
    number = rng.randrange(len(world.NUMBERS))
    if rng.random() < 0.5:
        question = pick(rng, ["Write {} in words.", "How do you write {} in words?", "What is {} in words?", "Write the number {} as a word.",
                              "{} in words?", "Give me {} in words.", "Which word is {}?", "How do you say {}?", "{} as a word",
                              "[Put|Tell me|Can you say|Please write|Express|Read] {} in words.",
                              "[Write|Say|Give me|Tell me] the [word|name] [for|of] {}.",
                              "[What|Which] word [stands for|do you use for] {}?", "The number {} [in words|as a word]",
                              "How [is|would you write] {} in words?",
                              "[Spell|Write] {} [out|as a word].", "What is the [word|name] for [the number|] {}?",
                              "~Say {} in words.", "~Spell the number {}."], held)
        return question.format(number), f"{number} is {world.NUMBERS[number]}.", world.NUMBERS[number], "I know the numbers."
    question = pick(rng, ["Write {} as a number.", "What number is {}?", "Which number is {}?", "How do you write {} in digits?", "{} as a number?",
                          "Give me {} in digits.", "{} in digits", "Which digits are {}?", "[Put|Tell me|Express] {} in digits.",
                          "[Write|Say|Give me] {} as [a number|digits].",
                          "[Which|What] [number|figure] is {}?", "The digits [of|for] {}", "How is {} written [in digits|as a number]?",
                          "What is {} as a number?",
                          "[Turn|Change] {} into [digits|a number].",
                          "~What is {} in digits?", "~Write {} in digits."], held)
    return question.format(world.NUMBERS[number]), f"{capital_first(world.NUMBERS[number])} is {number}.", str(number), "I know the numbers."


def fact_world(rng, held):
    roll = rng.random()
    if roll < 0.35:
        country, language = rng.choice(list(world.LANGUAGES.items()))
        question = pick(rng, ["What language do people speak in {}?", "Which language is spoken in {}?", "What do they speak in {}?",
                              "What is the language of {}?", "Tell me the language of {}.", "People in {} speak what?",
                              "Which language do they speak in {}?", "Name the language of {}.", "Which language [is|do people talk] in {}?",
                              TELL + " the language of {}.", "[What|Which] [language|tongue] [is used|do I need|do I hear|is official|do they use] in {}?", "{} has [what|which] language?",
                              "In {}, [what|which language] do [people|they] speak?", "[What|Which] language [does|should] [one|I] speak in {}?",
                              "People of {} speak [what|which language]?",
                              "~What language is spoken in {}?", "~Which language do people speak in {}?"], held)
        return question.format(country), f"People in {country} speak {language}.", language, f"I know the language of {country}."
    if roll < 0.65:
        continent = rng.choice(list(world.CONTINENTS))
        country = rng.choice(world.CONTINENTS[continent].split(","))
        question = pick(rng, ["On which continent is {}?", "Where is {}?", "In which part of the world is {}?", "What continent is {} in?",
                              "Tell me the continent of {}.", "{} is on which continent?", "Name the continent of {}.", "Where in the world is {}?",
                              TELL + " the continent of {}.", "[What|Which] is the continent of {}?", "Where [can I find|do I find|lies] {}?",
                              "{} [lies on|is part of|belongs to] [what|which] continent?", "To [what|which] continent does {} belong?",
                              "[In|On] [what|which] [continent|part of the world] [lies|do I find] {}?",
                              "~Which continent is {} in?", "~On what continent is {}?"], held)
        return question.format(country), f"{country} is in {continent}.", continent, f"I know where {country} is."
    questions, answer = rng.choice(world.MORE)
    forms = questions.split("|")
    question = forms[-1] if held else rng.choice(forms[:-1])
    return question + "?", f"It is {answer}." if "do " not in question else f"{capital_first(answer)}.", answer, "I know this."


FACTS = ((fact_capital, 5), (fact_colour, 3), (fact_opposite, 4), (fact_calendar, 3), (fact_animal, 3), (fact_number, 3), (fact_world, 4))


def fact(rng, held=False):
    make = rng.choices([one for one, _ in FACTS], [weight for _, weight in FACTS])[0]
    question, answer, expect, think = make(rng, held)
    return Turn(asked(rng, question, held), answer, think, expect=expect)
