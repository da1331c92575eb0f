# The skills: each makes one turn of a chat, what is asked and what the answer is. How phrases are written, and which are held out, is phrases.py. Not
# here: facts (fact_skills.py), tools (tool_skills.py), pictures (picture_skills.py), whole chats (chats.py).
from dataclasses import dataclass, field

import strings
import world
from phrases import TELL, WHAT, asked, pick


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
    kind: str = ""                         # of tool; "picture", "no picture"
    picture: dict = None                   # that stands beside the question


WHO = "I am Vigil Tiny, a very small language model."
CAN = "I know a few facts, count, add small numbers, repeat and reverse words, and call tools."
GREETINGS = [
    (["Hello", "Hello!", "Hi", "Hi!", "Hi there", "Hey", "Hello there!", "Good morning", "Good evening!", "Hey there", "Greetings",
      "hello, how do you do?",
      "Good day", "Hi Vigil", "Good morning, Vigil", "Good evening, Vigil", "Afternoon!", "Morning!", "A good day to you", "Hello Vigil Tiny",
      "[Hi|Hey|Oh hi|Oh hello], Vigil", "Hello again", "Hi again!", "Hello hello", "Hi hi", "Howdy", "Nice to meet you", "Good to see you",
      "Hello, friend",
      "Hey you", "Hello everyone", "[Hello|Hi|Hey|Good evening], [nice to see you|nice to meet you|are you there|can you hear me]", "Anybody there?",
      "~Hello, Vigil!", "~Hey!", "~Good afternoon", "~Hi, hello", "~Good morning!"], "Hello! How can I help you?",
      "The user greets me."),
    (["Who are you?", "What are you?", "What is your name?", "Tell me who you are.", "Are you a person?", "Which model are you?", "Introduce yourself.",
      "What model is this?", "Are you a robot?", "What's your name?", "Who is this?", "Who is there?",
      "Who am I [speaking with|chatting with|speaking to]?",
      "[With whom|To whom] do I [talk|speak|chat]?", "[How should|How can|What can|How do|What do] I call you?", "What do people call you?",
      "Say your name.",
      "[Give me|May I ask|I forgot|I want to know|Can you tell me] your name[.|?]", "Do you have a name?", "Your name?", "And your name is?",
      "Tell me about yourself.", "Are you [a machine|a computer|a program|an AI|a bot|a real person|alive|a living thing|a language model]?",
      "Am I [speaking with|talking to] a [machine|person|robot]?", "[What|Which] kind of [program|AI|assistant|thing] [are you|is this]?",
      "What [sort|type] of [model|AI|program] [are you|is this]?", "Are you ChatGPT?", "[Please introduce|Can you introduce|Describe] yourself[.|?]",
      "~Who am I talking to?", "~What should I call you?", "~Tell me your name.",
      "~What kind of model are you?", "~Are you a human?"], WHO, "The user asks who I am."),
    (["What can you do?", "How can you help me?", "What do you know?", "What are you good at?", "Help", "What can I ask you?",
      "Tell me what you can do.", "What can you do for me?", "What are you made for?", "What are your skills?",
      "What are you for?", "What is your job?", "What do you do [all day|here|for people|every day]?",
      "[List|Say|Explain|I want to know] what you can do.",
      "[Show me|Tell me|What are|List] your skills", "What are you capable of?", "Are you able to help me?", "What [things|tasks] [can|could] you do?",
      "What can I do with you?", "What [could|would] you help with?", "[With what|Where] can you help me?", "How do I use you?", "I need help",
      "What [are|were] you [trained|built|made] to do?", "Show me what you know.", "What do you know how to do?",
      "~What are you able to do?", "~What can you help me with?", "~What do you do?", "~Show me what you can do."], CAN, "The user asks what I can do."),
    (["Thank you", "Thanks!", "Thank you very much.", "Thanks a lot", "Great, thanks", "Thanks so much", "Thanks for that",
      "Thank you for your help.", "Thanks for the help!", "Thank you kindly",
      "[Very kind|Nice|Perfect|Good|Wonderful|OK], [thank you|thanks]", "Much appreciated", "A thousand thanks", "Big thanks",
      "Thank you, [friend|Vigil Tiny]",
      "I thank you", "Oh, thank you", "~Many thanks", "~Thank you so much!", "~Thanks, Vigil"],
     "You are welcome!", "The user thanks me."),
    (["Bye", "Goodbye", "See you", "Good night", "See you later!", "Bye bye", "Bye for today",
      "[See|I will see] you [tomorrow|next time|around|again]", "[Bye|Good night|See you], Vigil", "Farewell", "So long",
      "Until next time", "[Talk|Speak] to you later", "I have to go", "I must go now. Bye!", "Good bye", "Have a nice day", "Bye then",
      "Goodbye, my friend",
      "That is all. Goodbye", "I am leaving now", "Bye, [thanks|friend]", "~Goodbye, Vigil", "~Bye for now", "~See you soon"], "Goodbye!",
     "The user leaves."),
    (["How are you?", "How are you doing?", "How do you feel?", "How is it going?", "How are you now?", "How are you feeling?", "How have you been?",
      "How is your day?", "Are you [well|OK|fine]?",
      "How is everything?", "How's it going?", "How are you, Vigil?", "[Is everything|Are things] fine?", "How are you this morning?",
      "How do you feel today?",
      "[Hi|Hello], how are you?", "How is life?", "Are you doing well?", "~How are you today?", "~How are things?"],
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


def difference(rng):
    return sums(rng, sign="-")


def sums(rng, held=False, sign=None):
    sign = sign or ("+" if rng.random() < 0.7 else "-")
    a, b = numbers(rng, held, sign)
    if sign == "+":
        question = pick(rng, ["What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "How much is {a} + {b}?", "What is {a} plus {b}?",
                              "Add {a} and {b}.",
                              "{a} plus {b}", "Calculate {a} + {b}.", "What's {a} + {b}?", "Add {b} to {a}.", "What is {a}+{b}?", "Compute {a} + {b}",
                              "Give me {a} + {b}.", "The sum of {a} and {b}?", "What do {a} and {b} make?", "What is the sum of {a} and {b}?",
                              "I need {a} plus {b}.",
                              "Say what {a} + {b} is.", "{a} and {b} together?", TELL + " {a} [+|plus] {b}.", TELL + " the sum of {a} and {b}.",
                              WHAT + " {a} [+|plus] {b}?", "What do [I|you|we] get [from|if I take|with|by] {a} [+|plus] {b}?",
                              "[What|How much] [does|will|would] {a} [+|plus] {b} [make|give|be|equal]?",
                              "What do you get [when you add|if you add|by adding] {a} [and|to|with] {b}?",
                              "[How much|How many|What] [is|are|makes|do you have with] {a} [+|and] {b}?",
                              "What comes out of {a} [+|plus] {b}?", "What is the [result|answer|total] of {a} [+|plus] {b}?",
                              "[Can you|Could you|I want you to|Now|Would you] add {a} [and|to] {b}?",
                              "[Find|Compute|Count|Work out|Calculate] {a} [+|plus] {b}", "{a} [+|plus] {b} [is|makes|equals] [what|how much]?",
                              "{a} [+|plus] {b} [=|is]", "If I add {b} to {a}, what do I get?",
                              "[Do you know|Can you say|Say|Tell me] [what|how much] {a} [+|plus] {b} [is|makes].", "The [total|sum] of {a} and {b}",
                              "Sum {a} and {b}.",
                              "[Please|Now|Now please|Let us|We must] [calculate|compute|work out|count|sum up|find] {a} [+|plus] {b}",
                              "[Let us|We must|You should|I have to|Please, now] add {a} [and|to] {b}.", "[Add up|Add the numbers|Please sum] {a} and {b}.",
                              "~Tell me {a} + {b}.", "~How much is {a} plus {b}?", "~What do you get for {a} + {b}?", "~Please add {a} and {b}."], held)
        total, work = a + b, column_sum(a, b)
    else:
        question = pick(rng, ["What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} = ?", "How much is {a} - {b}?", "What is {a} minus {b}?",
                              "{a} minus {b}", "Calculate {a} - {b}.", "What's {a} - {b}?", "Subtract {b} from {a}.", "Take {b} from {a}.",
                              "Give me {a} - {b}.", "Compute {a} - {b}", "I need {a} minus {b}.", "Say what {a} - {b} is.",
                              "What is left of {a} without {b}?",
                              "What is {a}-{b}?", TELL + " {a} [-|minus] {b}.", TELL + " the difference of {a} and {b}.",
                              WHAT + " {a} [-|minus] {b}?", "What do [I|you|we] get [from|if I take|with|by] {a} [-|minus] {b}?",
                              "[What|How much] [does|will|would] {a} [-|minus] {b} [make|give|be|equal]?",
                              "What do you get [when you take|if you take|by taking] {b} from {a}?",
                              "[How much|How many|What] [is|are|remains of|do you have with] {a} [- {b}|without {b}]?",
                              "What comes out of {a} [-|minus] {b}?", "What is the [result|answer] of {a} [-|minus] {b}?",
                              "[Can you|Could you|I want you to|Now|Please] [subtract|take] {b} from {a}",
                              "[Find|Compute|Count|Work out|Calculate] {a} [-|minus] {b}", "{a} [-|minus] {b} [is|makes|equals] [what|how much]?",
                              "{a} [-|minus] {b} [=|is]", "If I take {b} from {a}, what is left?",
                              "[Do you know|Can you say|Say|Tell me] [what|how much] {a} [-|minus] {b} [is|makes].",
                              "The difference between {a} and {b}", "How much more is {a} than {b}?",
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
                              "Can you count down from {a} to {b}?",
                              "[Now|I want you to|Could you|Try to|You should] count [down|backwards] from {a} to {b}.",
                              "[Give|Say|Write|Tell] me the numbers from {a} [down to|back to] {b}.",
                              "[Please|Could you] [say|write] the numbers from {a} down to {b}",
                              "Count [down|backwards]: {a} to {b}", "[Start at|Begin with] {a} and count [down|back] to {b}.", "{a} down to {b}",
                              "Backwards from {a} to {b}, please.", "~Please count down from {a} to {b}.",
                              "~Can you count backwards from {a} to {b}?"], held).format(a=last, b=first)
        row = range(last, first - 1, -1)
    else:
        phrases = ["Count from {a} to {b}.", "Count from {a} up to {b}.", "Write the numbers from {a} to {b}.", "Can you count from {a} to {b}?",
                   "Say the numbers from {a} to {b}.", "Numbers from {a} to {b}", "Count: {a} to {b}",
                   "[Now|I want you to|Could you|Try to|You should|Let us] count [up |]from {a} to {b}.",
                   "[Say|Tell me|Show me|List|I need|I want|Please write] [all |]the numbers [from {a} to {b}|between {a} and {b}].", "{a} to {b}",
                   "[Start at|Begin with] {a} and count to {b}.",
                   "Which numbers are [there |]from {a} to {b}?", "[Please give|Write|Show] me every number from {a} to {b}.",
                   "~Please count from {a} to {b}.",
                   "~Give me the numbers from {a} to {b}."]
        if first == 1:
            phrases += ["Count to {b}.", "Can you count to {b}?", "Count up to {b}.", "[Now|I want you to|Could you|Please|Try to] count to {b}",
                        "[Count|Start counting] until {b}."]
        question = pick(rng, phrases, held).format(a=first, b=last)
        row = range(first, last + 1)
    answer = ", ".join(str(number) for number in row)
    return Turn(asked(rng, question, held), answer, f"I count from {row[0]} to {row[-1]}.", expect=answer, exact=True)


def quoted(rng, text):
    return rng.choice(("{}", "{}", "{}", '"{}"', "'{}'")).format(text)


def spell(rng, held=False):
    text = strings.fitting(rng, held, strings.spelled)
    question = pick(rng, ["Spell {}.", "Spell the word {}.", "How do you spell {}?", "Spell: {}", "What are the letters of {}?",
                          "Write {} letter by letter.", "Give me the letters of {}.", "Spelling of {}?", "How is {} spelled?",
                          "Say the letters of {}.", "[Now|I want you to|Could you|Would you|How can I|How would you|How should I] spell {}[.|?]",
                          "[Write|Say|Give me|Tell me] [the letters of|the spelling of|how to spell] {}.",
                          "[Which|What] letters [are in|has|make] {}?", "[Spell|Write] the word {} [out|letter by letter].",
                          "{} letter by letter", "The letters of {}[.|:|?]", "[Take|Break|Split] {} into [its |]letters.", "Letters of {}",
                          "Spell {} [for me|out for me|now|slowly].",
                          "[Spell out the|Can you spell the|Please spell the] word {}[.|?]",
                               "~Please spell {}.",
                          "~Can you spell {}?", "~Spell out {}."], held)
    return Turn(asked(rng, question.format(quoted(rng, text)), held), "-".join(text), "I write the letters.", expect="-".join(text), exact=True)


def reverse(rng, held=False):
    text = strings.fitting(rng, held, strings.spelled)
    question = pick(rng, ["Reverse the word {}.", "Reverse {}.", "Write {} backwards.", "Spell {} backwards.", "What is {} backwards?", "Reverse: {}",
                          "Turn the word {} around.", "Can you reverse {}?", "Please write {} backwards.", "How is {} written backwards?",
                          "Give me {} backwards.",
                              "{} backwards", "[What is|What's|Tell me|Give me|Write|Say|Show me] the reverse of {}[.|?]",
                              "[Now|I want you to|Could you|Would you|Try to] [reverse|turn around] {}.",
                              "[Say|Print|Read|Spell] {} [in reverse|from back to front|in reverse order].",
                              "[Could you|Please|I want you to|Would you] [write|say|spell] {} [in reverse|from the end]",
                              "How do you [write|spell] {} backwards?", "[What|Which word] do I get [if I|when I] [reverse|turn around] {}?",
                              "The reverse of {}", "{} in reverse order", "{} reversed",
                              "What does {} look like backwards?", "Flip {}.", "[Mirror|Invert] the word {}.",
                              "Can you [spell|say|read] {} backwards?", "Reverse this word: {}", "Read {} from the end.", "Turn {} around",
                              "~Please reverse {}.",
                              "~Can you write {} backwards?", "~What is {} in reverse?"], held)
    work = "-".join(text) + ", " + "-".join(text[::-1])
    return Turn(asked(rng, question.format(quoted(rng, text)), held), f"{work}: {text[::-1]}", work, expect=text[::-1])


def repeat(rng, held=False):
    text = strings.fitting(rng, held, lambda r: r.choice((strings.phrase, strings.phrase, strings.anything))(r))
    question = pick(rng, ["Repeat: {}", "Repeat after me: {}", "Say {}", "Say: {}", "Repeat {}", "Echo {}", "Write {}", "Copy this: {}",
                          "Please repeat: {}",
                          "Repeat this text: {}", "Say after me: {}", "Write this: {}", "Copy: {}", "Give me back this text: {}", "Print {}",
                          "Please write: {}", "Repeat the words {}",
                          "[Now|Can you|Could you|I want you to|Just|You must] [say|repeat|write|echo|copy]: {}",
                          "[Repeat|Write|Echo|Copy|Print|Type|Say] [this|the text|my words|these words|the next text|what follows|exactly this|this line]: {}", "[Repeat|Say|Echo|Type|Copy] {}",
                          "[Please|Now please|Just] [repeat|echo|copy|print|type] [this|it|the text]: {}", "[Answer|Reply] with: {}",
                          "Your answer must be: {}", "Repeat what I say: {}",
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
                              "Let us talk about {}.", "[I would like|I want] to [hear|learn|read|know more] about {}.",
                              "[Write|Give me|Tell me|I need] [something|more|a story|a page|all] about {}.",
                              "[Can|Could|Would] you [tell me about|explain|describe|say something about|write about] {}?",
                              "[What is|What's] your [opinion|view] [of|on|about] {}?",
                              "What [should|must|can] I know about {}?", "Why is {} [important|so hard|so difficult]?", "Are you an expert in {}?",
                              "How does one learn about {}?", "{}", "Describe {}.", "~What can you say about {}?", "~Please explain {}.",
                              "~Give me a text about {}."],
                              held).format(topic)
    elif roll < 0.75:
        text = strings.fitting(rng, held, rng.choice((strings.name, strings.place)))
        question = pick(rng, ["What is the capital of {}?", "Who is {}?", "Where is {}?", "What is {}?", "Tell me about {}.", "When was {} born?",
                              "How old is {}?", "Have you heard of {}?", "Describe {}.", "What did {} do?", "Why is {} famous?", "How far is it to {}?",
                              "Is {} nice?", "Who is {} married to?", "[What|Where] [is|was|are] {}[?| exactly?]",
                              "How [old|tall|far|famous|rich|small|good] is {}?", "[Do|Did] you [know|meet|like] {}?",
                              "What [happened in|is new in|can I see in|do people do in|is special about] {}?", "[Who|What] [lives|works] in {}?",
                              "How many people live in {}?",
                              "What do you [know|say|feel] about {}?", "When [did|will] {} [come|begin|die|end]?", "Why [did|does] {} do that?",
                              "~Who was {}?", "~How big is {}?", "~What do you think of {}?"], held).format(text)
    elif roll < 0.9:
        text = strings.fitting(rng, held, lambda r: r.choice((strings.place(r), r.choice(world.CITIES))))
        question = pick(rng, ["What is the weather in {}?", "How is the weather in {}?", "What time is it in {}?",
                              "[Is it|Will it be] [cold|sunny|raining|windy] in {}[?| today?| now?]",
                              "[Tell me|Say|Show me|Check] the [weather|time] in {}.",
                              "[What will|How will] the weather be in {}?", "How [warm|late|windy] is it in {}?",
                              "[Does it|Is it going to] [rain|snow] in {}?",
                              "What [are|were] the temperatures in {}?", "~How hot is it in {}?",
                              "~What is the temperature in {}?"], held).format(text)
        return Turn(asked(rng, question, held), UNKNOWN, "I have no tool for this.", expect="do not know", avoids=frozenset(("weather", "time", "search")))
    else:
        question = pick(rng, ["What will happen tomorrow?", "Who will win the election?", "What did I say yesterday?", "Write me a poem.",
                              "Write a program.",
                              "What is the best language?", "Why is the sky blue?", "How do I become rich?", "Which book should I read?",
                              "Why is water wet?", "Who is the king?", "What should I cook?", "Which film is good?", "Who is the best player?",
                              "When does the shop open?", "Why do people laugh?", "What happened in the news?", "Write me a letter.", "Sing a song.",
                              "Tell me a joke.",
                              "Translate this book.", "[Write|Read|Send|Draw|Paint|Find|Make|Build|Buy] me [a poem|a letter|a book|a picture|a song|a house|a long text|a novel|a song text].",
                              "[Who|What|Which one] will [win|come next|be next|be the best]?",
                              "[Why|How] do [fish|dogs|people|stars|cats|trees] [swim|sleep|shine|work|dream|grow]?",
                              "[Which|What] [house|phone|shirt|computer|name|dog] should I [buy|take|choose]?",
                              "[What|Who] [did I|did we|did they] [do|see|say|meet] [yesterday|last week|today]?",
                              "[Where|When|How] [is|was] [my brother|the train|the meeting|our teacher|the next bus]?",
                              "Who is [my friend|my teacher|the boss|that man|the best singer]?",
                              "[What|How much] does [a house|a car|it|this] cost?", "What is your favourite film?", "How old are you?",
                              "~Write me a story.", "~Who is my boss?",
                              "~Why do birds fly?", "~Which car should I buy?", "~What happened last year?"], held)
    return Turn(asked(rng, question, held), UNKNOWN, "I have not learned this.", expect="do not know", avoids=frozenset(("search",)))


def remember(rng, held=False):
    """Two turns: something is told, then asked for."""
    kind, say, ask, answer = rng.choice((
        ("name", ["My name is {}.", "I am {}.", "I'm {}.", "Call me {}.", "[Hi|Hey|Good morning|Hello], I am {}.",
            "[Hi|Hey|Good day]! My name is {}.", "[People|My friends|Please|You can] call me {}.", "The name is {}.",
                 "My name's {}.", "~Hello, my name is {}."],
         ["What is my name?", "Who am I?", "Do you know my name?", "What's my name?",
          "[Say|Do you remember|I forgot|Repeat|Give me|Can you tell me|Do you still know] my name[.|?]", "What am I called?", "How am I called?",
                  "What was my name[?| again?]", "Which name did I [say|tell you]?",
                  "[Tell me|Say|Do you know] [who I am|what I am called|what my name is][.|?]", "And my name is?", "What name do I have?",
                  "~Tell me my name."], "Your name is {}."),
        ("town", ["I live in {}.", "I am from {}.", "My home is {}.", "I come from {}.", "[My city is|My home town is|My house is in|We live in] {}.",
            "I am [living|at home] in {}.", "I'm from {}.", "~My town is {}."],
         ["Where do I live?", "Where am I from?", "What is my town?",
          "[Tell me|Say|Do you remember|Do you still know|Can you say|I forgot] where I live[.|?]", "Where do I come from?",
          "In which [town|city|place] do I live?", "What is my [city|home town|home]?",
                  "[Tell me|Say|Do you know] [my town|my city|where I am from][.|?]", "Where is my home?",
                  "~Do you know where I live?"], "You live in {}."),
        ("number", ["My number is {}.", "The code is {}.", "Remember the code {}.",
            "[My code is|My password is|The number is|The password is|Keep in mind:|Remember:|Remember this:] {}",
            "[Remember|Keep|Note|Store] the [number|password|word] {}.", "Can you remember {}?", "~Please remember the code {}."],
         ["What is my number?", "What is the code?", "Which code did I say?",
          "[What was|Say|Give me|Do you remember|Do you know|I forgot|Repeat] the [code|number|password][.|?]",
          "What did I [say|tell you to remember]?", "What is the [number|password]?",
                  "[Which|What] [number|password|code] did I [say|tell you|give you]?",
                  "[Tell me|Give me|Say] [my number|my code|the number|the password].", "~Tell me the code."], "It is {}.")))
    maker = {"name": strings.name, "town": strings.place, "number": strings.code}[kind]
    text = strings.fitting(rng, held, maker)
    told = pick(rng, say, held).format(text)
    first_answer = {"name": "Hello {}!", "town": "You live in {}.", "number": "I will remember {}."}[kind].format(text)
    return [Turn(told, first_answer, "The user tells me something.", expect=text, avoids=frozenset(("search",))),
            Turn(pick(rng, ask, held), answer.format(text), "The user told me.", expect=text)]
