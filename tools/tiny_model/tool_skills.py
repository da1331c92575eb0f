# Tools to call: known ones and made-up ones, each with its question, its one right call and a result to answer from. Not here: whole chats.
import json

import strings
import world
from phrases import TELL, WHAT, asked, pick
from skills import Turn, quoted


def tool(name, description, parameters, required=None):
    """`parameters`: {name: type}. An OpenAI tool."""
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
    schema["required"] = list(parameters) if required is None else required
    function = {"name": name, "parameters": schema}
    if description:
        function["description"] = description
    return {"type": "function", "function": function}


# kind: (names, descriptions, argument's names, questions); "~" is held out.
KNOWN = {
    "weather": (["get_weather", "get_current_weather", "weather", "fetch_weather", "weather_now", "getWeather", "~weather_lookup", "~city_weather",
                 "~show_weather"],
                ["Get the weather in a city", "The current weather", "Weather for a place", "Get current temperature for a given location.",
                 "Get the current weather in a given location"],
                ["city", "location", "place", "town"],
                ["What is the weather in {}?", "What's the weather in {}?", "How is the weather in {}?", "How is the weather in {} today?",
                 "Is it raining in {}?",
                 "Weather in {}?", "What is the weather like in {}?", "Tell me the weather in {}.", "Do I need an umbrella in {}?", "Is it cold in {}?",
                 "What is the temperature in {}?", "How warm is it in {} now?", "Is it sunny in {}?", "weather {}", "Is there snow in {}?",
                 "Does it rain in {}?", "What will the weather be in {}?", "Check the weather in {}.", "I go to {}. How is the weather?",
                 "Show me the weather of {}.", "How hot is it in {}?", "Can you tell me the weather in {}?", "Say how the weather is in {}.",
                 "What's the weather like in {} today?",
                 TELL + " the weather [in|of] {}.", WHAT + " the [weather|temperature] in {}[?| now?| today?| right now?| tomorrow?]",
                 "[How|Is the weather fine|Is it wet|Is it windy] in {}?",
                 "[Is it|Will it be|Was it] [raining|snowing|cold|hot|sunny|windy|cloudy|foggy|wet|dry|nice] in {}[?| now?| today?| tomorrow?| right now?]",
                 "How [hot|warm|windy|wet|sunny|humid] [is|will|was] it [be |]in {}[?| now?| today?| tomorrow?]",
                 "[Does it|Is it going to|Did it] [rain|snow] in {}[?| now?| today?| tomorrow?]",
                 "[Get|Find|Look up|Check|Fetch|I need|Show] the [weather|current weather|forecast|temperature] [in|for|of|at] {}.",
                 "[What are|Give me] the [weather conditions|temperatures] in {}[?| today?]",
                 "What [should I wear|do I wear] in {}[?| today?]", "Should I take [an umbrella|a coat|a hat] [to|in] {}?",
                 "I [am in|travel to|live in|visit] {}. [What is the weather|Is it cold|Will it snow]?",
                 "{}: [weather|what is the weather|how is the weather]?", "[And|So|Now] [in|the weather in|how is it in] {}?",
                 "Weather [for|of|at] {}[?| please| now| today]", "Weather report for {}", "Temperature in {}[?| now?]",
                 "~What is the weather in {} today?", "~Will it rain in {}?", "~How cold is it in {}?", "~Give me the weather for {}.",
                 "~Is it warm in {}?"]),
    "time": (["get_time", "current_time", "get_current_time", "clock", "time_in", "local_time", "~time_now", "~what_time", "~city_time"],
             ["Get the time in a city", "The current time", "Local time of a place", "Get current time in a given time zone"],
             ["city", "location", "place", "timezone"],
             ["What time is it in {}?", "What's the time in {}?", "What is the time in {}?", "Tell me the time in {}.", "How late is it in {}?",
              "Time in {}?",
              "What time is it now in {}?", "time {}", "Which time is it in {}?", "Check the time in {}.", "Can you tell me the time in {}?",
              "Say what time it is in {}.", "Is it late in {}?", "Show me the time of {}.",
              "What is the local time in {}?", TELL + " the [time|hour|local time] in {}.",
              WHAT + " the [time|hour|local time] in {}[?| right now?| at the moment?]",
              "[What|Which] [time|hour] [is it|do they have|do people have] in {}[?| now?| right now?| at the moment?]",
              "[What's|What is] the [clock|current time] in {}[?| now?]",
              "[Get|Find|Look up|Check|Fetch|I need] the [time|current time|clock] [in|for|of|at] {}[.| now.]",
              "How late [is it|do they have it] in {}[?| now?| right now?]", "[Is it|Will it be] [morning|night|noon|evening|day] in {}[?| now?]",
              "{}: [time|what time is it|how late is it]?", "[And|So|Now] the time in {}?", "Time [for|of|at|now in] {}[?| please]",
              "I [am in|call someone in|fly to] {}. [What time is it|How late is it there]?", "When it is now here, what time is it in {}?",
              "[Do you know|Can you say|Tell me] [what time|how late] it is in {}[.| now.]", "~What is the time in {} now?",
              "~Do you know the time in {}?", "~Give me the time in {}."]),
    "calculator": (["calculator", "calculate", "calc", "compute", "evaluate", "math", "~arithmetic", "~calculate_expression", "~do_math"],
                   ["Evaluate an expression", "A calculator", "Calculate a result", "Compute the value of an expression"],
                   ["expression", "input", "formula", "expr"],
                   ["What is {}?", "Calculate {}.", "Calculate {}", "How much is {}?", "Compute {}.", "{}", "What's {}?", "{} = ?", "Work out {}.",
                    "Evaluate {}.",
                    "Use the calculator for {}.", "Give me {}.", "I need {}.", "Can you calculate {}?", "Find {}.", "What is the result of {}?",
                    "Do the math: {}", TELL + " {}.", WHAT + " {}?", "What do [I|you|we] get [from|with|by] {}?",
                    "[What|How much] [does|will|would] {} [make|give|be|equal|come to]?", "What comes out of {}?",
                    "What is the [answer|value|outcome] of {}?", "[Use|Take|Call|Ask] [the|your] [calculator|tool] [for|with]: {}",
                    "[How much|How many|What] [is|are|makes] {}[?| exactly?]", "[Can you|Could you|Now|Would you] [compute|evaluate|work out] {}[?|.]",
                    "{} [is|makes|equals] [what|how much]?", "{} [=|is|equals]",
                    "[Do you know|Can you say|Say|Tell me] [what|how much] {} [is|makes].", "Value of {}", "~Please calculate {}.", "~Tell me {}.",
                    "~What do you get for {}?", "~Solve {}."]),
    "read_file": (["read_file", "open_file", "file_read", "read", "load_file", "cat_file", "ReadFile", "~get_file", "~view_file", "~show_file"],
                  ["Read a file", "Reads the content of a file", "Open a file and return its text", "Read a file from disk"],
                  ["path", "file", "filename", "file_path"],
                  ["Read {}.", "Read the file {}.", "Open {}.", "Show me {}.", "What is in {}?", "What is in the file {}?", "What does {} say?",
                   "Show the file {}.",
                   "Read {} please.", "Print {}.", "Can you read {}?", "Open the file {}", "Load {}.", "I need the text of {}.", "What is written in {}?",
                   "Give me the content of {}.", "Look into {}.",
                   "What is the content of {}?", "Can you open the file {}?",
                   "[Show|Print|Give|Tell|Read|Get] me [the file|what is in|what stands in|the text of|the content of] {}[.| please.]",
                   "[Can you|Could you|Would you|I want you to|You should] [read|open|print|look at|load|show me] [the file |]{}[?|.]",
                   "[Take|Have|I want] a look [at|into] [the file |]{}.", "What [stands|can I read|do you find|is there|have we] in [the file |]{}?",
                   "What does {} [tell|hold|have in it]?", "[Get|Fetch|Display|Cat|View|Check] [the file |the text of |]{}[.|]",
                   "I [need|want|would like] to [read|see|open|know what is in] [the file |]{}.",
                   "Let us [read|open|look at] {}.", "[The content|The text] of {}?", "Please [show|print|load] [me |]{}.",
                   "Is there something in {}?", "Tell me what [the file |]{} [says|holds|contains].", "~Please read {}.", "~Please open the file {}.",
                   "~Let me see {}.",
                   "~What does the file {} contain?"]),
    "search": (["search", "web_search", "search_web", "google", "find_online", "~internet_search", "~search_internet"],
               ["Search the web", "Find pages", "Search the internet"], ["query", "q", "text", "terms"],
               ["Search for {}.", "Search the web for {}.", "Look up {} on the web.", "Find pages about {}.", "Search {}", "Google {}.",
                "Can you search for {}?", "Search the internet for {}.", "Find {} on the web.", "I need pages about {}.",
                "[Find|Get|Give|Show] me [pages|results|news|something] [about|on|for] {} [on the web|on the internet|online].",
                "[Do|Start|Make] a [web search|search] for {}.", "[Could|Would] you [search for|google|look up] {}?",
                "[Search|Look] [on the web|online] for {}.", "What does the [internet|web] [say|know] about {}?", "[Web search|Search]: {}",
                "Now search for {}.", "~Please search for {}.",
                "~Look on the internet for {}."]),
    "shell": (["run", "bash", "shell", "run_command", "execute", "~terminal", "~run_shell"], ["Run a command", "Run a shell command", "Execute a command"],
              ["command", "cmd"], ["Run {}.", "Run the command {}.", "Execute {}.", "Run {} in the shell.", "Execute the command {}.", "I want to run {}.",
                                   "Can you execute {}?", "Do {} in the shell.", "Please run {}.",
                                   "[Now|Please|Could you|I want you to|Would you|You should] [execute|run the command|do|call] {}[.|]",
                                   "[Run|Execute|Try] [this|this command|the shell command|in bash]: {}", "[Use|Take] the shell [for|to run] {}.",
                                   "In the [shell|terminal]: {}", "Command: {}",
                                   "What does {} [print|give|show]?", "~Start the command {}.", "~Can you run {}?"]),
    "list": (["list_files", "ls", "list_dir", "list_directory", "~show_folder", "~dir"], ["List files", "List a folder", "List the files in a directory"],
             ["path", "folder", "directory"], ["List the files in {}.", "What files are in {}?", "Show the folder {}.", "List {}.",
              "Which files are in {}?",
                                               "Can you list {}?", "What is in the folder {}?", "List the folder {}.", "Show the files of {}.",
                                               "[Now|Could you|I want you to|Would you] list [the files in |the folder |]{}[.|]",
                                               "[Give|Tell|Print] me [the files|what is|all files] in [the folder |]{}.",
                                               "What [is there|do you see] in the [folder|directory] {}?",
                                               "[Which|What] files [has|are there in] the folder {}?", "Look into the folder {}.",
                                               "List [the directory|all of|everything in] {}.", "Files in {}",
                                              "~Please list {}.", "~Show me the files in {}."]),
    "translate": (["translate", "translator", "translate_text", "~get_translation"], ["Translate a text", "Translate text"], ["text", "input"],
                  ["Translate {}.", "Translate the text {}.", "Please translate {}.", "Translate: {}", "I need a translation of {}.", "Translate this: {}",
                   "Translate the words {}.", "[Now|Could you|I want you to|Would you|Please now] translate [the text |this: |]{}[.|]",
                   "[What|How] is {} in [another language|German|French]?", "[Make|I want|Get me] a translation of {}.", "Translation of {}",
                   "~Can you translate {}?", "~Give me a translation of {}."]),
    "timer": (["set_timer", "timer", "start_timer", "~new_timer"], ["Set a timer", "Start a timer of some minutes"], ["minutes"],
              ["Set a timer for {} minutes.", "Start a timer for {} minutes.", "Wake me in {} minutes.", "Timer {} minutes",
               "I need a timer of {} minutes.",
               "Tell me when {} minutes are over.", "{} minutes timer",
               "[Now|Could you|I want you to|Would you|Can you] [set|start] a timer [for|of|to] {} minutes[.|]",
               "[Wake|Call|Alert|Warn] me [in|after] {} minutes.", "[Count|Wait] {} minutes.",
               "[Set|Start|Make] [the timer|an alarm] [for|to] {} minutes.",
               "My [tea|egg|cake] needs {} minutes.", "Timer[: | for | of ]{} minutes", "In {} minutes [wake me|tell me|call me].",
               "~Please set a timer for {} minutes.",
               "~Remind me in {} minutes."]),
}
MADE_VERBS = "get,find,fetch,look_up,check,open,start,show,load,send,delete,create,update,play,stop,count,order,book,add,print".split(",")
MADE_ARGUMENTS = "name,id,key,value,item,text,title,code,label,target,query,input,object,word,number".split(",")
COMMANDS = "ls,cat,rm,cp,git,make,echo,grep,cd,python3,node,touch,mkdir,sort".split(",")


def command(rng):
    text = rng.choice(COMMANDS)
    if rng.random() < 0.4:
        text += " -" + "".join(rng.choice(strings.LETTERS) for _ in range(rng.randint(1, 2)))
    if rng.random() < 0.8:
        text += " " + rng.choice((strings.word, strings.path))(rng)
    return text


def argument_for(kind, rng, held, listed):
    if kind in ("weather", "time"):
        return rng.choice(world.CITIES) if listed else strings.fitting(rng, held, strings.place)
    if kind == "calculator":
        return strings.fitting(rng, held, strings.expression)
    if kind in ("read_file", "list"):
        def folder(r):
            return strings.path(r).rsplit(".", 1)[0] or "docs"
        return strings.fitting(rng, held, strings.path if kind == "read_file" else folder)
    if kind == "shell":
        return strings.fitting(rng, held, command)
    if kind == "timer":
        return rng.randint(1, 90)
    return strings.fitting(rng, held, lambda r: r.choice((strings.phrase, strings.sentence, strings.anything))(r))


def weather_result(rng):
    sky = rng.choice(("sunny", "cloudy", "rain", "snow", "clear", "windy", "fog", "light rain", "partly cloudy", "storm"))
    degrees = rng.randint(-15, 38)
    return rng.choice((f"{degrees} C, {sky}", f"{sky}, {degrees} degrees", f"{sky} and {degrees} C", f"{degrees} degrees", sky,
                       json.dumps({"temperature": degrees, "sky": sky}), json.dumps({"temp": degrees, "unit": "C", "condition": sky})))


def result_for(kind, rng, held):
    if kind == "weather":
        return weather_result(rng)
    if kind == "time":
        return strings.fitting(rng, None, strings.clock)
    if kind == "calculator":
        return str(rng.randint(0, 10 ** rng.randint(1, 5))) + (f".{rng.randint(1, 99)}" if rng.random() < 0.2 else "")
    roll = rng.random()
    if roll < 0.12:
        keys = [rng.choice(MADE_ARGUMENTS) for _ in range(rng.choice((1, 2)))]
        return json.dumps({key: rng.choice((strings.word(rng), rng.randint(0, 999))) for key in keys})
    if roll < 0.2:
        return "Error: " + rng.choice(("not found", "no such file", "permission denied", "timeout", "failed", "unknown " + strings.word(rng),
                                       strings.phrase(rng)))
    return strings.fitting(rng, held, lambda r: r.choice((strings.phrase, strings.sentence, strings.anything))(r))


def plain(result):
    """A result in words: JSON objects become "key: value", anything else stays."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    if not isinstance(value, dict):
        return result
    return ", ".join(f"{key}: {one}" for key, one in value.items())


def answer_from(kind, argument, result):
    text = plain(result)
    if result.startswith("Error: "):
        return f"That did not work: {text[7:]}."
    if kind == "weather":
        return f"The weather in {argument}: {text}."
    if kind == "time":
        return f"It is {text} in {argument}."
    if kind == "calculator":
        return f"{argument} = {text}."
    if kind == "read_file":
        return f"The file says: {text}"
    return f"The result: {text}"


STEMS = {"weather": ("weather", "forecast", "temperature", "climate"), "time": ("time", "clock", "hour", "date"),
         "calculator": ("math", "calc", "sum", "expression", "calculation"), "read_file": ("file", "text", "document", "content"),
         "search": ("web", "search", "pages", "internet"), "shell": ("shell", "command", "bash", "process"), "list": ("folder", "dir", "files",
         "directory"),
         "translate": ("translate", "language", "translation"), "timer": ("timer", "alarm", "countdown")}
HELD_NAMES = {name[1:] for names, _, _, _ in KNOWN.values() for name in names if name[0] == "~"}
FRONT = "get,show,find,do,my,new,call,fetch,make,use,run,ask,tell,quick,the,web,local,city,open,load,read,what,simple".split(",")
BACK = "lookup,now,tool,api,info,service,finder,helper,info,for,at,of,get,call,run,data,reader,maker,v2,2".split(",")


def any_name(rng, kind):
    """A name that is to be copied, not known: of words that fit, of syllables, or both. Held-out ones never."""
    while True:
        stem = rng.choice(STEMS[kind]) if rng.random() < 0.6 else strings.syllables(rng, rng.choice((1, 2)))
        roll = rng.random()
        parts = [rng.choice(FRONT), stem] if roll < 0.4 else [stem, rng.choice(BACK)] if roll < 0.75 else [stem] if roll < 0.85 else \
            [rng.choice(FRONT), stem, rng.choice(BACK)]
        name = "".join([parts[0]] + [part.capitalize() for part in parts[1:]]) if rng.random() < 0.12 else "_".join(parts)
        if 3 <= len(name) <= 24 and name not in HELD_NAMES:
            return name


def known_tool(rng, kind, held=False, any_share=0.0):
    """`any_share`: how often training gives the tool a name to copy. Then it has a description, or a stem that tells."""
    names, descriptions, arguments, _ = KNOWN[kind]
    name = pick(rng, names, held)
    description = rng.choice(descriptions) if rng.random() < 0.8 else ""
    if not held and rng.random() < any_share:
        name = any_name(rng, kind)
        description = rng.choice(descriptions) if rng.random() < 0.9 or not any(stem in name.lower() for stem in STEMS[kind]) else ""
    kinds = {rng.choice(arguments): "integer" if kind == "timer" else "string"}
    required = list(kinds)
    if rng.random() < 0.15:
        kinds["unit" if kind == "weather" else "format"] = "string"  # not required: never filled
    return tool(name, description, kinds, required)


def use_known(rng, held=False, listed=False, held_name=None, kind=None, one=None):
    """`listed`: the argument is one that training has seen; `held_name`: so is the tool's name, or not. `kind` and `one`: a tool at hand."""
    if kind is None:
        kind = rng.choices(list(KNOWN), (7, 4, 4, 5, 3, 2, 2, 2, 1))[0] if not listed else rng.choice(("weather", "time"))
        one = known_tool(rng, kind, held if held_name is None else held_name, 0.0 if held else 0.4)
    argument = argument_for(kind, rng, held, listed or (kind in ("weather", "time") and not held and rng.random() < 0.35))
    question = pick(rng, KNOWN[kind][3], held)
    shown = quoted(rng, str(argument)) if kind in ("search", "shell", "translate", "read_file", "list") else str(argument)
    name = one["function"]["name"]
    key = one["function"]["parameters"]["required"][0]
    result = result_for(kind, rng, held)
    return Turn(asked(rng, question.format(shown), held), answer_from(kind, argument, result), f"I call {name} with {argument}.", (name, {key: argument}),
                result,
                [one], frozenset((kind,)), expect=plain(result).removeprefix("Error: "), kind=kind)


def again(rng, turn):
    """Another turn that calls the same tool."""
    if turn.kind == "made":
        return use_made(rng, one=turn.tools[0])
    if turn.kind == "clock":
        return use_clock(rng, one=turn.tools[0])
    return use_known(rng, kind=turn.kind, one=turn.tools[0])


def made_name(rng, held):
    def make(r):
        noun = r.choice(world.NOUNS) if r.random() < 0.6 else strings.syllables(r, r.choice((1, 2)))
        return r.choice(MADE_VERBS) + "_" + noun
    while True:
        name = strings.fitting(rng, held, make)
        if 5 <= len(name) <= 22:
            return name


def made_tool(rng, held=False):
    name = made_name(rng, held)
    verb, noun = name.rsplit("_", 1)
    roll = rng.random()
    description = "" if roll < 0.4 else f"{verb.replace('_', ' ').capitalize()} a {noun}" if roll < 0.8 else strings.sentence(rng)
    roll = rng.random()
    key = rng.choice(MADE_ARGUMENTS) if roll < 0.7 else noun if roll < 0.85 else noun + "_id"
    return tool(name, description, {key: "integer" if rng.random() < 0.12 else "string"})


def use_made(rng, held=False, one=None):
    one = one or made_tool(rng, held)
    name = one["function"]["name"]
    verb, noun = name.rsplit("_", 1)
    (key, schema), = one["function"]["parameters"]["properties"].items()
    if schema["type"] == "integer":
        argument = rng.randint(0, 10 ** rng.randint(1, 4))
    else:
        argument = strings.fitting(rng, held, lambda r: r.choice((strings.word, strings.name, strings.code, strings.anything))(r))
    shown = quoted(rng, str(argument))
    words = verb.replace("_", " ")
    question = pick(rng, ["{V} the {n} {a}.", "{V} {n} {a}.", "Please {v} the {n} {a}.", "{V} the {n} for {a}.", "Can you {v} the {n} {a}?",
                          "Use {t} with {a}.",
                          "Call {t} with {a}.", "I need you to {v} the {n} {a}.", "Please {v} {n} {a}", "{V} a {n} for {a}.", "Use {t} for {a}.",
                          "{v} {n} {a}", "{t} {a}", "I want to {v} the {n} {a}.", "Run {t} with {a}.", "Would you {v} the {n} {a}?",
                              "Let {t} do {a}.", "Now {v} the {n} {a}.", "Can you call {t} for {a}?",
                              "[Would you|I need to|Let us|You should|Just|Now please|We must] {v} [the |a |]{n} {a}.",
                              "[Run|Call|Take|Try|Start] [the tool |]{t} [with|for|on] {a}[.|]",
                          "{V} [this|that|my|our|your] {n}: {a}", "The {n} {a}: {v} it.", "{n} {a}: {v}", "[Do|Make] a {t} [of|for|with] {a}.",
                          "[Can you|I would like to|Will you|Do] {v} {n} {a}?", "Please use {t} on {a}.", "{V} {a}, the {n}.",
                          "{a} is the {n}. {V} it.",
                          "~Could you {v} the {n} {a}?", "~Please {v} the {n} for {a}.", "~Use the tool {t} with {a}.", "~I want you to {v} the {n} {a}."],
                          held)
    question = question.format(V=words.capitalize(), v=words, n=noun, t=name, a=shown)
    result = result_for("made", rng, held)
    return Turn(asked(rng, question, held), answer_from("made", argument, result), f"I call {name} with {argument}.", (name, {key: argument}), result,
                [one], frozenset(("made:" + noun,)), expect=plain(result).removeprefix("Error: "), kind="made")


def use_clock(rng, held=False, one=None):
    """A tool without arguments."""
    one = one or tool(pick(rng, ["get_time", "now", "current_time", "get_current_time", "~time_now"], held), rng.choice(("", "Get the time",
                                                                                                                         "The current time")), {})
    question = pick(rng, ["What time is it?", "What's the time?", "Tell me the time.", "What is the time?",
                          "[Say|Give me|Show me|I need|Check|Can you tell me|What's] the [time|current time|hour][.|?]", "How late is it[?| now?]",
                          "[Which|What] [hour|time] [is it|do we have]?",
                          "[Do you know|Tell me] [how late it is|what time it is|what hour it is][.|?]", "Time, please", "What does the clock say?",
                          "~What time is it now?",
                          "~Do you know the time?"], held)
    result = strings.clock(rng)
    name = one["function"]["name"]
    return Turn(asked(rng, question, held), f"It is {result}.",
        f"I call {name}.", (name, {}), result, [one], frozenset(("time",)), expect=result, kind="clock")


def distractor(rng, avoids, alike=0.0):
    """(kind, tool): one that this chat does not need. `alike`: how often it is one of the two whose questions are most alike."""
    while True:
        if rng.random() < 0.5:
            kind = rng.choice(("weather", "time") if alike and rng.random() < alike else list(KNOWN))
            if kind not in avoids:
                return kind, known_tool(rng, kind, any_share=0.3)
        else:
            one = made_tool(rng, False)
            kind = "made:" + one["function"]["name"].rsplit("_", 1)[1]
            if kind not in avoids:
                return kind, one
