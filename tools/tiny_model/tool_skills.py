# Tools to call: known ones and made-up ones, each with its question, its one right call and a result to answer from. Not here: whole chats.
import json

import strings
import world
from skills import Turn, asked, pick, quoted


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
                 "~What is the weather in {} today?", "~Will it rain in {}?", "~How cold is it in {}?", "~Give me the weather for {}.", "~Is it warm in {}?"]),
    "time": (["get_time", "current_time", "get_current_time", "clock", "time_in", "local_time", "~time_now", "~what_time", "~city_time"],
             ["Get the time in a city", "The current time", "Local time of a place", "Get current time in a given time zone"],
             ["city", "location", "place", "timezone"],
             ["What time is it in {}?", "What's the time in {}?", "What is the time in {}?", "Tell me the time in {}.", "How late is it in {}?", "Time in {}?",
              "What time is it now in {}?", "time {}", "Which time is it in {}?", "Check the time in {}.", "Can you tell me the time in {}?",
              "Say what time it is in {}.", "Is it late in {}?", "Show me the time of {}.",
              "What is the local time in {}?", "~What is the time in {} now?", "~Do you know the time in {}?", "~Give me the time in {}."]),
    "calculator": (["calculator", "calculate", "calc", "compute", "evaluate", "math", "~arithmetic", "~calculate_expression", "~do_math"],
                   ["Evaluate an expression", "A calculator", "Calculate a result", "Compute the value of an expression"],
                   ["expression", "input", "formula", "expr"],
                   ["What is {}?", "Calculate {}.", "Calculate {}", "How much is {}?", "Compute {}.", "{}", "What's {}?", "{} = ?", "Work out {}.",
                    "Evaluate {}.",
                    "Use the calculator for {}.", "Give me {}.", "I need {}.", "Can you calculate {}?", "Find {}.", "What is the result of {}?",
                    "Do the math: {}", "~Please calculate {}.", "~Tell me {}.", "~What do you get for {}?", "~Solve {}."]),
    "read_file": (["read_file", "open_file", "file_read", "read", "load_file", "cat_file", "ReadFile", "~get_file", "~view_file", "~show_file"],
                  ["Read a file", "Reads the content of a file", "Open a file and return its text", "Read a file from disk"],
                  ["path", "file", "filename", "file_path"],
                  ["Read {}.", "Read the file {}.", "Open {}.", "Show me {}.", "What is in {}?", "What is in the file {}?", "What does {} say?",
                   "Show the file {}.",
                   "Read {} please.", "Print {}.", "Can you read {}?", "Open the file {}", "Load {}.", "I need the text of {}.", "What is written in {}?",
                   "Give me the content of {}.", "Look into {}.",
                   "What is the content of {}?", "Can you open the file {}?", "~Please read {}.", "~Please open the file {}.", "~Let me see {}.",
                   "~What does the file {} contain?"]),
    "search": (["search", "web_search", "search_web", "google", "find_online", "~internet_search", "~search_internet"],
               ["Search the web", "Find pages", "Search the internet"], ["query", "q", "text", "terms"],
               ["Search for {}.", "Search the web for {}.", "Look up {} on the web.", "Find pages about {}.", "Search {}", "Google {}.",
                "Can you search for {}?", "Search the internet for {}.", "Find {} on the web.", "I need pages about {}.", "~Please search for {}.",
                "~Look on the internet for {}."]),
    "shell": (["run", "bash", "shell", "run_command", "execute", "~terminal", "~run_shell"], ["Run a command", "Run a shell command", "Execute a command"],
              ["command", "cmd"], ["Run {}.", "Run the command {}.", "Execute {}.", "Run {} in the shell.", "Execute the command {}.", "I want to run {}.",
                                   "Can you execute {}?", "Do {} in the shell.", "Please run {}.", "~Start the command {}.", "~Can you run {}?"]),
    "list": (["list_files", "ls", "list_dir", "list_directory", "~show_folder", "~dir"], ["List files", "List a folder", "List the files in a directory"],
             ["path", "folder", "directory"], ["List the files in {}.", "What files are in {}?", "Show the folder {}.", "List {}.", "Which files are in {}?",
                                               "Can you list {}?", "What is in the folder {}?", "List the folder {}.", "Show the files of {}.",
                                              "~Please list {}.", "~Show me the files in {}."]),
    "translate": (["translate", "translator", "translate_text", "~get_translation"], ["Translate a text", "Translate text"], ["text", "input"],
                  ["Translate {}.", "Translate the text {}.", "Please translate {}.", "Translate: {}", "I need a translation of {}.", "Translate this: {}",
                   "Translate the words {}.", "~Can you translate {}?", "~Give me a translation of {}."]),
    "timer": (["set_timer", "timer", "start_timer", "~new_timer"], ["Set a timer", "Start a timer of some minutes"], ["minutes"],
              ["Set a timer for {} minutes.", "Start a timer for {} minutes.", "Wake me in {} minutes.", "Timer {} minutes", "I need a timer of {} minutes.",
               "Tell me when {} minutes are over.", "{} minutes timer", "~Please set a timer for {} minutes.",
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


def known_tool(rng, kind, held=False):
    names, descriptions, arguments, _ = KNOWN[kind]
    description = rng.choice(descriptions) if rng.random() < 0.8 else ""
    kinds = {rng.choice(arguments): "integer" if kind == "timer" else "string"}
    required = list(kinds)
    if rng.random() < 0.15:
        kinds["unit" if kind == "weather" else "format"] = "string"  # not required: never filled
    return tool(pick(rng, names, held), description, kinds, required)


def use_known(rng, held=False, listed=False, held_name=None, kind=None, one=None):
    """`listed`: the argument is one that training has seen; `held_name`: so is the tool's name, or not. `kind` and `one`: a tool at hand."""
    if kind is None:
        kind = rng.choices(list(KNOWN), (7, 4, 4, 5, 3, 2, 2, 2, 1))[0] if not listed else rng.choice(("weather", "time"))
        one = known_tool(rng, kind, held if held_name is None else held_name)
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
    question = pick(rng, ["What time is it?", "What's the time?", "Tell me the time.", "What is the time?", "~What time is it now?",
                          "~Do you know the time?"], held)
    result = strings.clock(rng)
    name = one["function"]["name"]
    return Turn(asked(rng, question, held), f"It is {result}.", f"I call {name}.", (name, {}), result, [one], frozenset(("time",)), expect=result, kind="clock")


def distractor(rng, avoids):
    """(kind, tool): one that this chat does not need."""
    while True:
        if rng.random() < 0.5:
            kind = rng.choice(list(KNOWN))
            if kind not in avoids:
                return kind, known_tool(rng, kind)
        else:
            one = made_tool(rng, False)
            kind = "made:" + one["function"]["name"].rsplit("_", 1)[1]
            if kind not in avoids:
                return kind, one
