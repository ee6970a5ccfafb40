#!/usr/bin/env python3
"""Generator of simple English stories, and of small conversations in which somebody asks for one.

    cast()   -> who, where, what          (lexicon.py holds the words)
    plot     -> what happens to them      (plots.py)
    expand() -> prose                     (template.py)

A conversation is made backwards: first the story, then a request that names some of its facts, so that the answer
always obeys the request.  Everything follows from one random generator: the same seed gives the same text.

    stories.py --count 1000 --seed 1 > stories.jsonl     # one {"text": ..} or {"chat": [[role, text], ..]} a line
    stories.py --count 3 --show                          # to look at
"""

import argparse
import json
import random
from types import SimpleNamespace

import lexicon
import talk
from plots import OPENINGS, PHRASES, PLOTS
from template import expand

PLAIN_SHARE = 0.6  # of all documents; the rest are conversations
STORY_SHARE = 0.8  # of all conversations; the rest are small talk only
STORIES_ASKED = [1] * 9 + [2]
INVENTED_NAMES = 0.2  # of the stories in conversations, those whose hero has a name that only the request tells


class Cast:
    """The people, things and places of one story: the slots of its templates."""

    def __init__(self, rng, invented=False):
        self.rng, self.invented = rng, invented
        self.place = rng.choice(lexicon.PLACES)
        self.slots = PHRASES | {"t": rng.choice(["morning", "afternoon", "day"]), "p": self._make_place()}
        self.weather(rng.choice(lexicon.WEATHERS))
        hero_kind = rng.choice(list(lexicon.KINDS))
        self.hero_can = lexicon.KINDS[hero_kind].can.split()
        self.slots["h"] = self._character(hero_kind, lexicon.KINDS[hero_kind], lexicon.TRAITS)

    def pick(self, alternatives):
        if isinstance(alternatives, str):
            alternatives = alternatives.split("|")
        return self.rng.choice(alternatives)

    def bind(self, **slots):
        """Chooses one of the alternatives of each slot, for the whole story."""
        for name, alternatives in slots.items():
            self.slots[name] = self.pick(alternatives)

    def weather(self, name):
        self.slots["w"] = name

    def thing(self, breaks=False):
        thing = self.rng.choice([thing for thing in lexicon.THINGS if thing.breaks or not breaks])
        self.slots["o"] = _Named(f"{self.pick(thing.looks)} {thing.name}", name=thing.name, use=thing.use)

    def helper(self, can="", peer=False):
        """Adds the friend: somebody of another kind; one who `can` do something; a peer is not a grown-up."""
        kinds = lexicon.KINDS if peer else lexicon.KINDS | lexicon.PEOPLE
        names = [
            name
            for name, kind in kinds.items()
            if name != self.slots["h"].kind and (not can or can in kind.can.split())
        ]
        name = self.rng.choice(names)
        young = peer or name in ("boy", "girl", "puppy")
        traits = [trait for trait in lexicon.HELPER_TRAITS if not young or trait not in ("old", "wise")]
        self.slots["f"] = self._character(name, kinds[name], traits)

    def wish(self, slot, entries):
        """Binds a slot to one entry of a table (of strings, or of tuples that have a name); returns the entry."""
        entry = self.rng.choice(entries)
        self.slots[slot] = getattr(entry, "name", entry)
        return entry

    def _make_place(self):
        place = self.place
        return _Named(
            place.name,
            name=place.name,
            there=place.there,
            to=place.to,
            doing=place.doing,
            scene=self.pick(place.scenes),
        )

    def _character(self, kind_name, kind, traits):
        pronoun = {"boy": "he", "girl": "she"}.get(kind_name) or self.rng.choice(["he", "she"])
        he, him, his, himself = lexicon.PRONOUNS[pronoun]
        trait = self.rng.choice(traits)
        return _Named(
            self._new_name(pronoun),
            kind=kind_name,
            trait=trait,
            a=f"a {trait} {kind_name}",
            he=he,
            him=him,
            his=his,
            himself=himself,
            home=kind.home,
            look=self.pick(lexicon.HOME_LOOKS),
            moved=kind.moved,
            sad=kind.sad,
            glad=kind.glad,
        )

    def _new_name(self, pronoun):
        taken = str(self.slots.get("h", ""))
        if self.invented and not taken:
            return self.pick(lexicon.NAME_STARTS) + self.pick(lexicon.NAME_ENDS)
        known = lexicon.HE_NAMES if pronoun == "he" else lexicon.SHE_NAMES
        while True:
            name = self.rng.choice(known)
            if name != taken:
                return name


class _Named(SimpleNamespace):
    """A slot that prints as its own name or description and has parts."""

    def __init__(self, text, **parts):
        super().__init__(text=text, **parts)

    def __str__(self):
        return self.text


def tell(rng, invented=False):
    """Returns (story, plot, cast); the hero may have an invented name."""
    cast = Cast(rng, invented)
    plot = rng.choice(PLOTS)
    text = rng.choice(OPENINGS) + " {habits} " + plot.build(cast)
    paragraphs = [expand(paragraph, cast.slots, rng) for paragraph in text.split("\n\n")]
    return _join(paragraphs, [str(cast.slots["h"]), str(cast.slots["f"])]), plot, cast


def _join(paragraphs, names):
    """No line begins with a name, so that a name is always the same token, with a blank before it."""
    text = paragraphs[0]
    for paragraph in paragraphs[1:]:
        text += (" " if paragraph.startswith(tuple(names)) else "\n\n") + paragraph
    return text


def conversation(rng):
    """Returns a list of (role, text)."""
    turns = []
    if rng.random() < talk.SYSTEM_SHARE:
        turns.append(("system", rng.choice(talk.SYSTEM)))
    if rng.random() >= STORY_SHARE:
        return turns + talk.small_talk(rng, rng.choice([1, 1, 2]))
    if rng.random() < 0.1:
        turns += talk.small_talk(rng, 1)
    for _ in range(rng.choice(STORIES_ASKED)):
        turns += _story_asked_for(rng)
    if rng.random() < 0.15:
        turns += talk.farewell(rng)
    return turns


def _story_asked_for(rng):
    invented = rng.random() < INVENTED_NAMES
    story, plot, cast = tell(rng, invented)
    request = talk.request(rng, plot, cast.slots)
    while invented and str(cast.slots["h"]) not in request:
        request = talk.request(rng, plot, cast.slots)
    return [("user", request), ("assistant", story)]


def document(rng):
    if rng.random() < PLAIN_SHARE:
        return {"text": tell(rng)[0]}
    return {"chat": conversation(rng)}


def documents(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        yield document(rng)


def _show(doc):
    if "text" in doc:
        return doc["text"]
    return "\n".join(f"<{role}> {text}" for role, text in doc["chat"])


def main():
    parser = argparse.ArgumentParser(description="write stories and conversations as JSON lines")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="readable text instead of JSON")
    options = parser.parse_args()
    for doc in documents(options.count, options.seed):
        print(_show(doc) + "\n\n---\n" if options.show else json.dumps(doc))


if __name__ == "__main__":
    main()
