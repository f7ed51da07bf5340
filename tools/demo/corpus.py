#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the training text: seeded short stories, expanded from the plots and word lists."""

import argparse
import random
import re

from phrases import PHRASES
from plots_away import PLOTS as AWAY
from plots_home import PLOTS as HOME
from words import ANIMALS, ELDERS, HE_KINDS, HE_NAMES, LISTS, ODD, PEOPLE, SHE_KINDS, SHE_NAMES

# The template language:
#   [a|b|c]   one of the alternatives, which may nest
#   {@name}   a fresh entry of the list `name`
#   {name}    an entry of the list `name`, chosen once per story; {name2} is another one
#   {name.1}  field 1 of that entry ("a ~ b ~ c"); {name.n} its last word
#   {h} {f} {r} {e} {x}   hero, friend, rival, elder, passer-by; with .he .his .kind and so on
# A capital letter in a slot ({H.he}) capitalises its result.
ROLES = "hfrex"
PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "self": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "self": "himself"},
}
ARTICLE = re.compile(r"\b([Aa]) (?=(?:[aei]|o(?!ne)|u(?!ni|se|su))\w)")
SENTENCE = re.compile(r'((?:^|[.!?] |\n|\." )"?)([a-z])')


def tighten(text):
    """Returns `text` on one line, with no space at the start of an alternative."""
    return re.sub(r"([\[|]) ", r"\1", " ".join(text.split()))


def load_lists(text):
    """Returns the lists of `text` by name; the fields of an entry stay joined by ' ~ '."""
    lists = {}
    for block in text.strip().split("= ")[1:]:
        name, body = block.split("\n", 1)
        entries = [tighten(entry) for entry in re.split(r"\s;(?:\s|$)", body)]
        lists[name.strip()] = [entry for entry in entries if entry]
    return lists


def load_plots(text):
    """Returns (name, paragraphs) for each plot of `text`."""
    plots = []
    for block in text.split("## ")[1:]:
        name, body = block.split("\n", 1)
        parts = [tighten(part) for part in body.split("\n\n")]
        plots.append((name.strip(), [part for part in parts if part]))
    return plots


LISTS_BY_NAME = {**load_lists(LISTS), **load_lists(PHRASES), "name": SHE_NAMES + HE_NAMES}
PLOTS = load_plots(HOME) + load_plots(AWAY)


class Being:
    """A person of the story, with the words that the text may use for this person."""

    def __init__(self, rng, role, taken, named):
        self.role = role
        self.sex = self._choose_sex(rng, taken)
        used = {being.kind for being in taken.values()}
        while True:
            self.kind = rng.choice(self._kinds(rng))
            if self.kind not in used:
                break
        names = SHE_NAMES if self.sex == "she" else HE_NAMES
        self.adj = rng.choice(LISTS_BY_NAME["adj"])
        self.name = rng.choice(names) if named else None
        self.known = False

    def _choose_sex(self, rng, taken):
        hero = taken.get("h")
        if hero and rng.random() < 0.75:
            return "he" if hero.sex == "she" else "she"
        return rng.choice(["she", "he"])

    def _kinds(self, rng):
        if self.role == "e":
            return ELDERS
        draw = rng.random()
        if draw < 0.5:
            return ANIMALS
        if draw < 0.75:
            return PEOPLE
        if draw < 0.9:
            return ODD
        return SHE_KINDS if self.sex == "she" else HE_KINDS

    def form(self, rng, what):
        """Returns the requested wording; the first mention introduces the person."""
        if what in PRONOUNS["she"]:
            return PRONOUNS[self.sex][what]
        if what == "":
            first, self.known = not self.known, True
            if self.name and first:
                return f"{self.name} the {self.kind}"
            return self.name or f"the {self.kind}"
        if what in ("kind", "adj", "sex"):
            return getattr(self, what)
        if what == "name":
            self.known = True
            return self.name
        if what == "the":
            self.known = True
            return f"the {self.adj} {self.kind}"
        if what == "akind":
            return f"a {self.kind}"
        self.known = True
        if what == "ak":
            return f"a {self.adj} {self.kind}"
        if what == "a":
            return self._introduction(rng)
        raise KeyError(what)

    def _introduction(self, rng):
        if self.role == "e":
            return f"{rng.choice(['an old', 'a very old', 'a wise old', 'an ancient'])} {self.kind}"
        size = rng.choice(["", "", f"{self.adj} ", f"{self.adj} ", "little ", "young "])
        if not self.name:
            return f"a {size}{self.kind}"
        tail = rng.choice(["called", "named", "called", "by the name of"])
        return f"a {size}{self.kind} {tail} {self.name}"


class Story:
    """A story being made: the choices so far, and the expansion of templates."""

    def __init__(self, rng, template):
        self.rng = rng
        self.template = template
        self.bound = {}
        self.beings = {}
        self.used = set()
        self.being("h")

    def being(self, role):
        if role not in self.beings:
            sure = role == "h" or "{%s.ak}" % role in self.template
            named = role not in "ex" and (sure or self.rng.random() < 0.6)
            self.beings[role] = Being(self.rng, role, self.beings, named)
        return self.beings[role]

    def pick(self, name):
        entries = LISTS_BY_NAME[name]
        fresh = [entry for entry in entries if entry not in self.used] or entries
        entry = self.rng.choice(fresh)
        self.used.add(entry)
        return entry

    def slot(self, key):
        """Returns the text for the slot `key`, which was between braces."""
        if key.startswith("@"):
            return self.expand(self.pick(key[1:]))
        lower = key.lower()
        name, _, field = lower.partition(".")
        if name in ROLES:
            text = self.being(name).form(self.rng, field)
        else:
            if name not in self.bound:
                entry = self.pick(name.rstrip("23"))
                self.bound[name] = [self.expand(part) for part in entry.split(" ~ ")]
            value = self.bound[name]
            if field == "n":
                text = value[0].split()[-1]
            elif field == "the":
                text = re.sub(r"^an? ", "the ", value[0])
            else:
                text = value[int(field or 0)]
        return text[0].upper() + text[1:] if key != lower else text

    def expand(self, text):
        """Returns `text` with its alternatives chosen and its slots filled, left to right."""
        out, at = [], 0
        while at < len(text):
            if text[at] == "[":
                options, at = split_options(text, at + 1)
                out.append(self.expand(self.rng.choice(options)))
            elif text[at] == "{":
                end = text.index("}", at)
                out.append(self.slot(text[at + 1:end]))
                at = end + 1
            else:
                out.append(text[at])
                at += 1
        return "".join(out)


def split_options(text, at):
    """Returns the alternatives of the bracket opened before `at`, and the place after it."""
    options, depth, start = [], 0, at
    while True:
        char = text[at]
        if char == "[":
            depth += 1
        elif char in "|]" and depth == 0:
            options.append(text[start:at])
            start = at + 1
            if char == "]":
                return options, at + 1
        elif char == "]":
            depth -= 1
        at += 1


def polish(text):
    """Returns `text` with corrected articles and capitals."""
    text = re.sub(r" +", " ", text).strip().replace(" ,", ",")
    text = ARTICLE.sub(r"\1n ", text)
    return SENTENCE.sub(lambda match: match.group(1) + match.group(2).upper(), text)


def story(rng):
    """Returns one story."""
    _, paragraphs = rng.choice(PLOTS)
    teller = Story(rng, "\n".join(paragraphs))
    return "\n\n".join(polish(teller.expand(paragraph)) for paragraph in paragraphs)


def stories(seed, count):
    """Yields `count` different stories, the same ones for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        yield story(rng)


def main():
    """Prints a few stories, or statistics of many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    args = parser.parse_args()
    for text in stories(args.seed, args.count):
        print(text, end="\n\n----\n\n")


if __name__ == "__main__":
    main()
