"""What people say to the storyteller: requests for a story, and small talk with its answers."""

from template import expand

SYSTEM_SHARE = 0.15
SYSTEM = [
    "You are a helpful assistant.",
    "You are a storyteller.",
    "You are Storyteller, a small model that tells stories.",
    "You tell short stories for children.",
    "You are a kind assistant who tells stories.",
]

ASK_ANY = [
    "Tell me a story.",
    "Please tell me a story.",
    "Can you tell me a story?",
    "A story, please.",
    "I would like to hear a story.",
    "Tell me a bedtime story.",
    "Write a short story.",
    "Tell us a story!",
    "Once more, please: a story.",
    "Do you know a story?",
    "Make up a story for me.",
]
ASK_FOR = [
    "Tell me a [|short |little |bedtime ]story {wish}.",
    "Please tell me a [|short ]story {wish}.",
    "Can you tell me a [|short ]story {wish}?",
    "Could you tell me a [|short ]story {wish}?",
    "Write a [|short ]story {wish}.",
    "Write me a story {wish}, please.",
    "I want a story {wish}.",
    "I would like [a story|to hear a story] {wish}.",
    "Make up a story {wish}.",
    "Give me a story {wish}.",
    "A story {wish}, please.",
    "Do you know a story {wish}?",
    "Tell us a [story|tale] {wish}.",
    "Write a story for my [son|daughter|class] {wish}.",
]
WHOM = [
    "about {h.one}",
    "about {h.one}",
    "about {h.one} [named|called] {h}",
    "about {h.one} [named|called] {h}",
    "about {h.one} [named|called] {h}",
    "about {h}",
    "about {h} the {h.kind}",
]
WITH_FRIEND = [
    "about {h.one} and a {f.kind}",
    "about {h.one} named {h} and a {f.kind} named {f}",
    "about {h} and {f}",
]

SMALL_TALK = [
    (
        ["Hello!", "Hi!", "Hello.", "Hi there!", "Good morning!", "Good evening.", "Hey!", "hello", "hi"],
        [
            "[Hello|Hi there]! [I am Storyteller.|] [Shall I tell you a story?|Would you like to hear a story?|What"
            " shall my story be about?]"
        ],
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "What is your name?",
            "Tell me about yourself.",
            "Are you a robot?",
            "who are you",
        ],
        [
            (
                "I am Storyteller, a [small|very small] language model. I [tell|make up] short stories about animals,"
                " children and robots."
            ),
            "My name is Storyteller. I am a small model, and I know only one thing: how to tell a story.",
        ],
    ),
    (
        ["What can you do?", "How can you help me?", "What do you know?", "Help!", "What should I ask you?"],
        [
            "I can tell you a story. [You may name a hero, a place or a thing.|Just tell me who it should be about.]",
            "Ask me for a story, for example about a fox who loses a kite.",
        ],
    ),
    (
        ["How are you?", "How are you today?", "Are you well?", "How do you do?"],
        ["I am very well, thank you! [Would you like a story?|Shall I tell you a story?]"],
    ),
    (
        [
            "Thank you!",
            "Thanks!",
            "Thank you, that was lovely.",
            "That was a nice story.",
            "I liked it.",
            "Great story!",
            "thanks",
        ],
        [
            "[You are welcome!|I am glad that you liked it!|It was a pleasure.] [Just ask if you want another"
            " story.|Come back for another one soon.|]"
        ],
    ),
    (
        ["Goodbye!", "Bye!", "Good night.", "See you tomorrow!", "I have to go now."],
        ["[Goodbye|Good night|See you soon]! [Sleep well.|Come back soon.|]"],
    ),
    (
        [
            "What is two plus two?",
            "What is the capital of France?",
            "Write a program.",
            "What is the weather like?",
            "How old is the moon?",
            "Who won the game?",
            "Can you do my homework?",
            "What time is it?",
            "Explain the stars to me.",
            "How do I cook rice?",
            "Tell me the news.",
            "What is the best car?",
            "How far away is the sun?",
            "Who is the king?",
        ],
        [
            "I do not know that, [for|because] I only know stories. [Would you like one?|Shall I tell you one?]",
            (
                "That is a good question, but I can only tell stories. [Shall I tell you one?|Would you like to hear"
                " one?]"
            ),
        ],
    ),
]
FAREWELLS = (4, 5)  # rows of SMALL_TALK that fit after a story


def small_talk(rng, count):
    turns = []
    for questions, answers in rng.sample(SMALL_TALK, count):
        turns += _exchange(rng, questions, answers)
    return turns


def farewell(rng):
    return _exchange(rng, *SMALL_TALK[rng.choice(FAREWELLS)])


def _exchange(rng, questions, answers):
    return [("user", rng.choice(questions)), ("assistant", expand(rng.choice(answers), {}, rng))]


def request(rng, plot, slots):
    """Returns a request that a story made from this plot and these slots satisfies."""
    if rng.random() < 0.12:
        return _careless(rng, rng.choice(ASK_ANY))
    slots = dict(slots, wish=_wish(rng, plot, slots))
    return _careless(rng, expand(rng.choice(ASK_FOR), slots, rng))


def _wish(rng, plot, slots):
    whom = rng.choice(WHOM).replace("{h.one}", rng.choice(["a {h.kind}", "a {h.kind}", "a {h.trait} {h.kind}"]))
    place = rng.choice(["{p.there}", "set {p.there}", "that happens {p.there}", "that takes place {p.there}"])
    form = rng.random()
    if form < 0.35:
        return whom
    if form < 0.65:
        return whom + " who " + rng.choice(plot.who.split("|"))
    if form < 0.75:
        return "about " + rng.choice(plot.about.split("|"))
    if form < 0.85:
        return (
            whom
            + " "
            + place.replace("that happens", "who lives").replace("that takes place", "who lives").replace("set ", "")
        )
    if form < 0.92:
        return place
    return rng.choice(WITH_FRIEND).replace("{h.one}", "a {h.kind}")


def _careless(rng, text):
    """Now and then people type without capitals and full stops."""
    if rng.random() < 0.15:
        text = text[0].lower() + text[1:].rstrip(".?!")
    return text
