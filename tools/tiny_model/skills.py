# The skills: each makes one turn of a chat, what is asked and what the answer is. A phrase that begins with "~" is held out: tests ask with
# those, training never does. Not here: facts (world.py), tools (tool_skills.py), whole chats (chats.py).
from dataclasses import dataclass, field

import strings
import world


@dataclass
class Turn:
    user: str
    answer: str = ""                       # the text, or what is said after the tool's result
    think: str = ""                        # what is thought when thinking is asked for
    call: tuple = None                     # (tool's name, arguments): answered by a call
    result: str = ""                       # what the tool says then
    tools: list = field(default_factory=list)   # the tools that this turn needs
    avoids: frozenset = frozenset()        # kinds of tools that must not be offered beside it
    expect: str = ""                       # the test: the answer must hold this (exact: be this)
    exact: bool = False
    kind: str = ""                         # of tool


def pick(rng, phrases, held):
    chosen = [phrase for phrase in phrases if phrase.startswith("~") == held]
    return rng.choice(chosen).removeprefix("~")


BEFORE = ["Question: ", "Now: ", "OK. ", "Next question: ", "Good. ", "I want to know: ", "Quick question: ", "Listen: ", "Another one: ", "Hey, ", "Well, ",
          "So: "]


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


WHO = "I am Vigil Tiny, a very small language model."
CAN = "I know a few facts, count, add small numbers, repeat and reverse words, and call tools."
GREETINGS = [
    (["Hello", "Hello!", "Hi", "Hi!", "Hi there", "Hey", "Hello there!", "Good morning", "Good evening!", "Hey there", "Greetings", "hello, how do you do?",
      "Good day", "Hi Vigil", "~Hello, Vigil!", "~Hey!", "~Good afternoon", "~Hi, hello", "~Good morning!"], "Hello! How can I help you?",
      "The user greets me."),
    (["Who are you?", "What are you?", "What is your name?", "Tell me who you are.", "Are you a person?", "Which model are you?", "Introduce yourself.",
      "What model is this?", "Are you a robot?", "What's your name?", "~Who am I talking to?", "~What should I call you?", "~Tell me your name.",
      "~What kind of model are you?", "~Are you a human?"], WHO, "The user asks who I am."),
    (["What can you do?", "How can you help me?", "What do you know?", "What are you good at?", "Help", "What can I ask you?", "Tell me what you can do.",
      "~What are you able to do?", "~What can you help me with?", "~What do you do?", "~Show me what you can do."], CAN, "The user asks what I can do."),
    (["Thank you", "Thanks!", "Thank you very much.", "Thanks a lot", "Great, thanks", "~Many thanks", "~Thank you so much!", "~Thanks, Vigil"],
     "You are welcome!", "The user thanks me."),
    (["Bye", "Goodbye", "See you", "Good night", "See you later!", "Bye bye", "~Goodbye, Vigil", "~Bye for now", "~See you soon"], "Goodbye!",
     "The user leaves."),
    (["How are you?", "How are you doing?", "How do you feel?", "How is it going?", "~How are you today?", "~How are things?"],
     "I am fine, thank you. How can I help you?", "The user asks how I am."),
]


def greet(rng, held=False):
    phrases, answer, think = rng.choice(GREETINGS)
    text = pick(rng, phrases, held)
    if not held and rng.random() < 0.2:
        text = text.lower() if rng.random() < 0.5 else text.rstrip("!?.")
    return Turn(text, answer, think, expect=answer, exact=True)


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def capital_first(text):
    return text[0].upper() + text[1:]


def number_phrase(what, of, amount):
    return f"There are {amount} {what} in {of}." if what not in ("wheels", "fingers") else f"{capital_first(of)} has {amount} {what}."


def fact_capital(rng, held):
    country, city = rng.choice(list(world.CAPITALS.items()))
    if rng.random() < 0.7:
        question = pick(rng, ["What is the capital of {}?", "What's the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?",
                              "Tell me the capital of {}.", "capital of {}", "Give me the capital of {}.", "What do you know about the capital of {}?",
                              "Say the capital of {}.", "I forgot the capital of {}.", "Where is the government of {}?",
                              "The capital of {}?", "Do you know the capital of {}?", "{}'s capital?",
                              "~What city is the capital of {}?", "~Please name the capital of {}.", "~Can you tell me the capital of {}?"], held)
        return question.format(country), f"The capital of {country} is {city}.", city, f"I know the capital of {country}."
    question = pick(rng, ["{} is the capital of which country?", "Of which country is {} the capital?", "What country has {} as its capital?",
                          "Which country's capital is {}?", "{} is a capital. Of what?", "Name the country with the capital {}.",
                          "Tell me the country whose capital is {}.",
                               "~{} is the capital of what country?", "~Which country has {} as its capital?"], held)
    return question.format(city), f"{city} is the capital of {country}.", country, f"I know which country {city} is the capital of."


def fact_colour(rng, held):
    thing, colour = rng.choice(list(world.COLOURS.items()))
    question = pick(rng, ["What colour is {}?", "What color is {}?", "Which colour does {} have?", "Tell me the colour of {}.", "What is the colour of {}?",
                          "The colour of {}?", "What colour has {}?", "Give me the colour of {}.", "Which color is {}?", "Say the colour of {}.",
                          "Is there a colour for {}?",
                              "Do you know what colour {} is?", "~What is the color of {}?", "~Which colour is {}?", "~Name the colour of {}."], held)
    return question.format(thing), f"{capital_first(thing)} is {colour}.", colour, f"I know the colour of {thing}."


def fact_opposite(rng, held):
    pair = rng.choice(world.OPPOSITES)
    one, other = pair if rng.random() < 0.5 else pair[::-1]
    question = pick(rng, ["What is the opposite of {}?", "Opposite of {}?", "Tell me the opposite of {}.", "What's the opposite of {}?",
                          "Name the opposite of {}.",
                          "Which word is the opposite of {}?", "Say the opposite of {}.", "What is not {}, but the opposite?", "I need the opposite of {}.",
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
    question = pick(rng, ["What {k} comes {s} {n}?", "Which {k} is {s} {n}?", "What comes {s} {n}?", "Which {k} comes {s} {n}?", "Tell me the {k} {s} {n}.",
                          "The {k} {s} {n}?", "Give me the {k} {s} {n}.", "Say which {k} comes {s} {n}.", "{s} {n} comes which {k}?", "Which one is {s} {n}?",
                              "~What {k} is {s} {n}?", "~Name the {k} {s} {n}.", "~What is the {k} {s} {n}?"], held)
    return question.format(k=kind, s=side, n=names[at]), f"{other} comes {side} {names[at]}.", other, f"I say the {kind}s in order."


def fact_animal(rng, held):
    roll = rng.random()
    if roll < 0.4:
        animal, sound = rng.choice(list(world.SOUNDS.items()))
        question = pick(rng, ["What does {} say?", "What sound does {} make?", "Which sound does {} make?", "How does {} sound?", "Tell me the sound of {}.",
                              "What does {} sound like?", "Say what {} says.", "Give me the sound of {}.", "Make the sound of {}.",
                              "~What noise does {} make?", "~What is the sound of {}?", "~Which noise does {} make?"], held)
        return question.format(article(animal)), f"{capital_first(article(animal))} says {sound}.", sound, f"I know the sound of {article(animal)}."
    if roll < 0.7:
        animal, young = rng.choice(list(world.YOUNG.items()))
        question = pick(rng, ["What is a young {} called?", "What do you call a young {}?", "What is a baby {} called?", "What is the young of a {} called?",
                              "Name the young of a {}.", "Tell me what a young {} is called.", "A baby {} is called what?",
                              "Which word is there for a young {}?", "Give me the name of a young {}.",
                              "~What do you call a baby {}?", "~How is a young {} called?"], held)
        return question.format(animal), f"A young {animal} is called a {young}.", young, f"I know the young of {article(animal)}."
    animal, legs = rng.choice(list(world.LEGS.items()))
    question = pick(rng, ["How many legs does {} have?", "How many legs has {}?", "Tell me how many legs {} has.", "What is the number of legs of {}?",
                          "{} has how many legs?", "Give me the number of legs of {}.", "Count the legs of {}.",
                          
                          "~How many legs are on {}?", "~Say how many legs {} has."], held)
    return question.format(article(animal)), f"{capital_first(article(animal))} has {legs} legs.", legs + " legs", f"I know the legs of {article(animal)}."


def fact_number(rng, held):
    roll = rng.random()
    if roll < 0.45:
        what, of, amount = rng.choice(world.AMOUNTS)
        question = pick(rng, ["How many {} are in {}?", "How many {} does {} have?", "How many {} are there in {}?", "Tell me how many {} {} has.",
                              "Say how many {} are in {}.", "Give me the number of {} in {}.", "The number of {} in {}?",
                              
                              "~How many {} has {}?", "~What is the number of {} in {}?"], held)
        return question.format(what, of), number_phrase(what, of, amount), amount, f"I know the {what} of {of}."
    if roll < 0.65:
        shape, sides = rng.choice(list(world.SIDES.items()))
        question = pick(rng, ["How many sides does {} have?", "How many sides has {}?", "Tell me how many sides {} has.", "How many corners does {} have?",
                              "Give me the number of sides of {}.", "{} has how many sides?", "Say how many sides {} has.",
                              
                              "~How many sides are there in {}?", "~What is the number of sides of {}?"], held)
        word = "corners" if "corners" in question else "sides"
        return question.format(article(shape)), f"{capital_first(article(shape))} has {sides} {word}.", sides, f"I know the shape {shape}."
    number = rng.randrange(len(world.NUMBERS))
    if rng.random() < 0.5:
        question = pick(rng, ["Write {} in words.", "How do you write {} in words?", "What is {} in words?", "Write the number {} as a word.",
                              "{} in words?", "Give me {} in words.", "Which word is {}?", "How do you say {}?", "{} as a word",
                              "~Say {} in words.", "~Spell the number {}."], held)
        return question.format(number), f"{number} is {world.NUMBERS[number]}.", world.NUMBERS[number], "I know the numbers."
    question = pick(rng, ["Write {} as a number.", "What number is {}?", "Which number is {}?", "How do you write {} in digits?", "{} as a number?",
                          "Give me {} in digits.", "{} in digits", "Which digits are {}?",
                          "~What is {} in digits?", "~Write {} in digits."], held)
    return question.format(world.NUMBERS[number]), f"{capital_first(world.NUMBERS[number])} is {number}.", str(number), "I know the numbers."


def fact_world(rng, held):
    roll = rng.random()
    if roll < 0.35:
        country, language = rng.choice(list(world.LANGUAGES.items()))
        question = pick(rng, ["What language do people speak in {}?", "Which language is spoken in {}?", "What do they speak in {}?",
                              "What is the language of {}?", "Tell me the language of {}.", "People in {} speak what?",
                              "Which language do they speak in {}?", "Name the language of {}.",
                              
                              "~What language is spoken in {}?", "~Which language do people speak in {}?"], held)
        return question.format(country), f"People in {country} speak {language}.", language, f"I know the language of {country}."
    if roll < 0.65:
        continent = rng.choice(list(world.CONTINENTS))
        country = rng.choice(world.CONTINENTS[continent].split(","))
        question = pick(rng, ["On which continent is {}?", "Where is {}?", "In which part of the world is {}?", "What continent is {} in?",
                              "Tell me the continent of {}.", "{} is on which continent?", "Name the continent of {}.", "Where in the world is {}?",
                              
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


def column_sum(a, b):
    steps, carry = [], 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10 ** place % 10, b // 10 ** place % 10
        total = x + y + carry
        steps.append(f"{x}+{y}" + ("+1" if carry else "") + f"={total}")
        carry = total // 10
    return " ".join(steps)


def column_difference(a, b):
    steps, borrow = [], 0
    for place in range(len(str(a))):
        x, y = a // 10 ** place % 10, b // 10 ** place % 10
        under = x < y + borrow
        steps.append(f"{10 * under + x}-{y}" + ("-1" if borrow else "") + f"={10 * under + x - y - borrow}")
        borrow = int(under)
    return " ".join(steps)


def numbers(rng, held, sign):
    while True:
        top = rng.choice((9, 20, 99, 99, 99, 999)) if sign == "+" else rng.choice((20, 99, 99))
        a, b = rng.randint(0, top), rng.randint(0, top)
        if sign == "-" and a < b:
            a, b = b, a
        if max(a, b) <= 9 and sign == "+":
            if not held:
                return a, b          # the table itself is learned whole
        elif strings.held_out(f"{a}{sign}{b}") == held:
            return a, b


def sums(rng, held=False):
    sign = "+" if rng.random() < 0.7 else "-"
    a, b = numbers(rng, held, sign)
    if sign == "+":
        question = pick(rng, ["What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "How much is {a} + {b}?", "What is {a} plus {b}?",
                              "Add {a} and {b}.",
                              "{a} plus {b}", "Calculate {a} + {b}.", "What's {a} + {b}?", "Add {b} to {a}.", "What is {a}+{b}?", "Compute {a} + {b}",
                              "Give me {a} + {b}.", "The sum of {a} and {b}?", "What do {a} and {b} make?", "What is the sum of {a} and {b}?",
                              "I need {a} plus {b}.",
                              "Say what {a} + {b} is.", "{a} and {b} together?",
                              "~Tell me {a} + {b}.", "~How much is {a} plus {b}?", "~What do you get for {a} + {b}?", "~Please add {a} and {b}."], held)
        total, work = a + b, column_sum(a, b)
    else:
        question = pick(rng, ["What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} = ?", "How much is {a} - {b}?", "What is {a} minus {b}?",
                              "{a} minus {b}", "Calculate {a} - {b}.", "What's {a} - {b}?", "Subtract {b} from {a}.", "Take {b} from {a}.",
                              "Give me {a} - {b}.", "Compute {a} - {b}", "I need {a} minus {b}.", "Say what {a} - {b} is.", "What is left of {a} without {b}?",
                              "What is {a}-{b}?",
                              "~Tell me {a} - {b}.", "~How much is {a} minus {b}?", "~What do you get for {a} - {b}?"], held)
        total, work = a - b, column_difference(a, b)
    answer = f"{a} {sign} {b} = {total}."
    return Turn(asked(rng, question.format(a=a, b=b), held), f"{work}. {answer}", work, expect=answer, avoids=frozenset(("calculator",)))


def count(rng, held=False):
    first = 1 if rng.random() < 0.5 else rng.randint(0, 30)
    length = rng.randint(3, 12)
    down = rng.random() < 0.3
    while strings.held_out(f"count {first} {length} {down}", 6) != held:
        first, length = (1 if rng.random() < 0.4 else rng.randint(0, 30)), rng.randint(3, 12)
    last = first + length - 1
    if down:
        question = pick(rng, ["Count down from {a} to {b}.", "Count backwards from {a} to {b}.", "Count from {a} down to {b}.",
                              "Count back from {a} to {b}.", "Write the numbers from {a} down to {b}.", "From {a} to {b}, backwards.",
                              "Can you count down from {a} to {b}?", "~Please count down from {a} to {b}.",
                              "~Can you count backwards from {a} to {b}?"], held).format(a=last, b=first)
        row = range(last, first - 1, -1)
    else:
        phrases = ["Count from {a} to {b}.", "Count from {a} up to {b}.", "Write the numbers from {a} to {b}.", "Can you count from {a} to {b}?",
                   "Say the numbers from {a} to {b}.", "Numbers from {a} to {b}", "Count: {a} to {b}", "~Please count from {a} to {b}.",
                   "~Give me the numbers from {a} to {b}."]
        if first == 1:
            phrases += ["Count to {b}.", "Can you count to {b}?", "Count up to {b}."]
        question = pick(rng, phrases, held).format(a=first, b=last)
        row = range(first, last + 1)
    answer = ", ".join(str(number) for number in row)
    return Turn(asked(rng, question, held), answer, f"I count from {row[0]} to {row[-1]}.", expect=answer, exact=True)


def quoted(rng, text):
    return rng.choice(("{}", "{}", "{}", '"{}"', "'{}'")).format(text)


def spell(rng, held=False):
    text = strings.fitting(rng, held, strings.spelled)
    question = pick(rng, ["Spell {}.", "Spell the word {}.", "How do you spell {}?", "Spell: {}", "What are the letters of {}?",
                          "Write {} letter by letter.", "Give me the letters of {}.", "Spelling of {}?", "How is {} spelled?", "Say the letters of {}.",
                               "~Please spell {}.",
                          "~Can you spell {}?", "~Spell out {}."], held)
    return Turn(asked(rng, question.format(quoted(rng, text)), held), "-".join(text), "I write the letters.", expect="-".join(text), exact=True)


def reverse(rng, held=False):
    text = strings.fitting(rng, held, strings.spelled)
    question = pick(rng, ["Reverse the word {}.", "Reverse {}.", "Write {} backwards.", "Spell {} backwards.", "What is {} backwards?", "Reverse: {}",
                          "Turn the word {} around.", "Can you reverse {}?", "Please write {} backwards.", "How is {} written backwards?",
                          "Give me {} backwards.",
                              "{} backwards", "Reverse this word: {}", "Read {} from the end.", "Turn {} around", "~Please reverse {}.",
                              "~Can you write {} backwards?", "~What is {} in reverse?"], held)
    work = "-".join(text) + ", " + "-".join(text[::-1])
    return Turn(asked(rng, question.format(quoted(rng, text)), held), f"{work}: {text[::-1]}", work, expect=text[::-1])


def repeat(rng, held=False):
    text = strings.fitting(rng, held, lambda r: r.choice((strings.phrase, strings.phrase, strings.anything))(r))
    question = pick(rng, ["Repeat: {}", "Repeat after me: {}", "Say {}", "Say: {}", "Repeat {}", "Echo {}", "Write {}", "Copy this: {}", "Please repeat: {}",
                          "Repeat this text: {}", "Say after me: {}", "Write this: {}", "Copy: {}", "Give me back this text: {}", "Print {}",
                          "Please write: {}", "Repeat the words {}",
                               "~Please say: {}", "~Repeat the following: {}", "~Say this: {}", "~Echo: {}"], held)
    return Turn(question.format(quoted(rng, text)), text, "I repeat the text.", expect=text, exact=True)


TOPICS = """the history of chess,quantum physics,the stock market,who won the game yesterday,the meaning of life,how to build a house,the price of bread,
the best film of all time,what I had for breakfast,the laws of France,how a computer works,the age of the universe,how many people live in China,
the president of Brazil,how to bake bread,the news of today,Shakespeare,my future,the lottery numbers,the theory of evolution,how to fix my car,
the author of this book,black holes,medicine,love,Roman emperors,who invented the telephone,the name of my cat,where my keys are,football""".replace("\n",
"").split(",")
HELD_TOPICS = """philosophy,the population of Tokyo,how to play the piano,what my neighbour thinks,the winner of the race,how planes fly,politics,
the best restaurant,the speed of light,who wrote this song""".replace("\n", "").split(",")
UNKNOWN = "I do not know that. I am a very small model."


def unknown(rng, held=False):
    roll = rng.random()
    if roll < 0.45:
        topic = rng.choice(HELD_TOPICS if held else TOPICS)
        question = pick(rng, ["Tell me about {}.", "What do you know about {}?", "Explain {}.", "I want to know about {}.", "Do you know about {}?",
                              "Write a long text about {}.", "What is new about {}?", "I have a question about {}.", "Can you help me with {}?",
                              "Say something about {}.",
                              "Let us talk about {}.", "Describe {}.", "~What can you say about {}?", "~Please explain {}.", "~Give me a text about {}."],
                              held).format(topic)
    elif roll < 0.75:
        text = strings.fitting(rng, held, rng.choice((strings.name, strings.place)))
        question = pick(rng, ["What is the capital of {}?", "Who is {}?", "Where is {}?", "What is {}?", "Tell me about {}.", "When was {} born?",
                              "How old is {}?", "Have you heard of {}?", "Describe {}.", "What did {} do?", "Why is {} famous?", "How far is it to {}?",
                              "Is {} nice?",
                              "~Who was {}?", "~How big is {}?", "~What do you think of {}?"], held).format(text)
    elif roll < 0.9:
        text = strings.fitting(rng, held, lambda r: r.choice((strings.place(r), r.choice(world.CITIES))))
        question = pick(rng, ["What is the weather in {}?", "How is the weather in {}?", "What time is it in {}?", "~How hot is it in {}?",
                              "~What is the temperature in {}?"], held).format(text)
        return Turn(asked(rng, question, held), UNKNOWN, "I have no tool for this.", expect="do not know", avoids=frozenset(("weather", "time", "search")))
    else:
        question = pick(rng, ["What will happen tomorrow?", "Who will win the election?", "What did I say yesterday?", "Write me a poem.", "Write a program.",
                              "What is the best language?", "Why is the sky blue?", "How do I become rich?", "Which book should I read?",
                              "Why is water wet?", "Who is the king?", "What should I cook?", "Which film is good?", "Who is the best player?",
                              "When does the shop open?", "Why do people laugh?", "What happened in the news?", "Write me a letter.", "Sing a song.",
                              "Tell me a joke.",
                              "Translate this book.", "What is your favourite film?", "How old are you?", "~Write me a story.", "~Who is my boss?",
                              "~Why do birds fly?", "~Which car should I buy?", "~What happened last year?"], held)
    return Turn(asked(rng, question, held), UNKNOWN, "I have not learned this.", expect="do not know", avoids=frozenset(("search",)))


def remember(rng, held=False):
    """Two turns: something is told, then asked for."""
    kind, say, ask, answer = rng.choice((
        ("name", ["My name is {}.", "I am {}.", "I'm {}.", "Call me {}.", "~Hello, my name is {}."],
         ["What is my name?", "Who am I?", "Do you know my name?", "What's my name?", "~Tell me my name."], "Your name is {}."),
        ("town", ["I live in {}.", "I am from {}.", "My home is {}.", "~My town is {}."],
         ["Where do I live?", "Where am I from?", "What is my town?", "~Do you know where I live?"], "You live in {}."),
        ("number", ["My number is {}.", "The code is {}.", "Remember the code {}.", "~Please remember the code {}."],
         ["What is my number?", "What is the code?", "Which code did I say?", "~Tell me the code."], "It is {}.")))
    maker = {"name": strings.name, "town": strings.place, "number": strings.code}[kind]
    text = strings.fitting(rng, held, maker)
    told = pick(rng, say, held).format(text)
    first_answer = {"name": "Hello {}!", "town": "You live in {}.", "number": "I will remember {}."}[kind].format(text)
    return [Turn(told, first_answer, "The user tells me something.", expect=text, avoids=frozenset(("search",))),
            Turn(pick(rng, ask, held), answer.format(text), "The user told me.", expect=text)]
