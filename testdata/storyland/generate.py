#!/usr/bin/env python3
"""The storyland grammar: short stories in simple English, each one a small consistent world.

    generate.py SEED COUNT OUT        one story a line; the same seed gives the same bytes

The kinds of story are chosen for what a language model must have to continue them:

    roles      "The cat chases the dog. The one who runs away is the dog."    word order, so positions
    chain      two such facts, then a question about one of them              the right fact
    bare       "cat chases dog. dog runs away from cat."                      the same, lower case
    love       "I love datawhale."                                            plain statistics
    song       "The cat sings: la bo ki. The dog sings the same song: la bo ki."     induction heads
    facts      "Mia has a red ball. Tom has … What color is the ball?"        retrieval
    count      "Ben has two apples. He finds three more. Now Ben has five apples."   addition
    world      named characters who move, give and meet; questions at the end all of it

Every random draw comes from one generator in a fixed order: moving a draw changes every story after it.
"""
import random
import sys

SPECIES = "cat dog mouse rabbit fox bear bird frog duck owl sheep horse".split()
NAMES = [("Mia", "She"), ("Tom", "He"), ("Lily", "She"), ("Ben", "He"), ("Anna", "She"), ("Max", "He"),
         ("Lucy", "She"), ("Sam", "He"), ("Zoe", "She"), ("Leo", "He"), ("Ella", "She"), ("Finn", "He")]
COLORS = "red blue green yellow white black".split()
OBJECTS = "ball kite hat book cake apple key box flower boat".split()
PLACES = ["garden", "forest", "house", "park", "barn", "field", "river", "hill", "pond", "farm"]
PREPOSITION = {"garden": "in", "forest": "in", "house": "in", "park": "in", "barn": "in",
               "field": "in", "river": "at", "hill": "on", "pond": "at", "farm": "on"}
NUMBERS = "zero one two three four five six seven eight nine ten".split()
LOVES = ["datawhale", "cats", "dogs", "books", "cake", "music", "the sun", "the rain", "my friends", "stories"]
FEELINGS = "happy sad tired hungry brave kind small big".split()
SYLLABLES = "la ti ra lo mo ki bo ta su ne da fi pu so mi wa".split()

# verb -> what the doer does, how the receiver answers, what the receiver does
VERBS = {
    "chases": ("chases", "runs away from", "runs away"),
    "scares": ("scares", "hides from", "hides"),
    "helps": ("helps", "thanks", "says thank you"),
    "calls": ("calls", "comes to", "comes"),
    "feeds": ("feeds", "eats with", "eats"),
    "teaches": ("teaches", "learns from", "learns"),
}

# (doer, receiver) pairs that no training story contains: they test generalisation.
HELD_OUT = {("owl", "sheep"), ("sheep", "owl"), ("fox", "duck"), ("duck", "fox"), ("bear", "mouse")}


def at(place):
    return f"{PREPOSITION[place]} the {place}"


def capital(sentence):
    return sentence[0].upper() + sentence[1:]


def infinitive(verb):
    return "teach" if verb == "teaches" else verb[:-1]


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, probability):
        return self.random.random() < probability

    def some(self, questions, least, most):
        """The questions shuffled, and between least and most of them."""
        self.random.shuffle(questions)
        return questions[:self.random.randint(least, most)]

    def pair(self):
        while True:
            a, b = self.random.sample(SPECIES, 2)
            if (a, b) not in HELD_OUT:
                return a, b

    # Who did what to whom: the answer depends on word order alone.

    def roles(self):
        a, b = self.pair()
        verb = self.pick(list(VERBS))
        does, answers, receives = VERBS[verb]
        story = []
        if self.chance(0.4):
            story.append(self.pick([
                f"One day the {a} sees the {b}.",
                f"The {b} and the {a} are {at(self.pick(PLACES))}.",
                f"The {a} is {self.pick(FEELINGS)}. The {b} is {self.pick(FEELINGS)}."]))
        story.append(f"The {a} {verb} the {b}.")
        if self.chance(0.45):
            story.append(f"The {b} {answers} the {a}.")
        if self.chance(0.35):
            c = self.pick([x for x in SPECIES if x not in (a, b)])
            story.append(self.pick([f"The {c} sees the {a} and the {b}.", f"The {c} is {at(self.pick(PLACES))}."]))
        return story + self.some([
            f"The one who {receives} is the {b}.",
            f"The one who {does} is the {a}.",
            f"Who {does} the {b}? The {a}.",
            f"Who {receives}? The {b}.",
            f"Who does the {a} {infinitive(verb)}? The {b}."], 1, 3)

    def chain(self):
        while True:
            a, b, c = self.random.sample(SPECIES, 3)
            if (a, b) not in HELD_OUT and (b, c) not in HELD_OUT:
                break
        verb = self.pick(list(VERBS))
        does, base = VERBS[verb][0], infinitive(verb)
        story = [f"The {a} {verb} the {b}.", f"The {b} {verb} the {c}."]
        if self.chance(0.5):
            self.random.shuffle(story)
        return story + self.some([
            f"Who does the {a} {base}? The {b}.",
            f"Who does the {b} {base}? The {c}.",
            f"Who {does} the {b}? The {a}.",
            f"Who {does} the {c}? The {b}."], 1, 3)

    def bare(self):
        a, b = self.pair()
        verb = self.pick(["chases", "helps", "calls", "scares"])
        _, answers, receives = VERBS[verb]
        story = [f"{a} {verb} {b}.", f"{b} {answers} {a}."]
        if self.chance(0.5):
            story.append(f"The one who {receives} is the {b}.")
        if self.chance(0.3):
            story.append(f"{b} is {self.pick(FEELINGS)}.")
        return story

    def love(self):
        x, y = self.random.sample(LOVES[1:], 2)
        who = self.pick(["I", "You", "We", "They"])
        form = self.random.random()
        if form < 0.4:
            story = ["I love datawhale."]
            if self.chance(0.7):
                story.append(self.pick([f"I love {x} and {y}.", f"You love {x}.", "We learn together.", "We love datawhale."]))
            return story
        if form < 0.7:
            return [f"{who} love {x}.", f"{who} love {y}.", f"{who} love {x} and {y}."]
        name, pronoun = self.pick(NAMES)
        return [f"{name} loves {x}.", f"{pronoun} loves {x} and {y}.", f"What does {name} love? {capital(x)} and {y}."]

    # Copying a line that was never seen before. The syllables are distinct: with repeats it isn't learnt.

    def song(self):
        a, b = self.random.sample(SPECIES, 2)
        line = " ".join(self.random.sample(SYLLABLES, self.random.randint(3, 8)))
        story = [f"The {a} sings: {line}.", f"The {b} sings the same song: {line}."]
        if self.chance(0.4):
            story.append(f"They sing together: {line}.")
        if self.chance(0.3):
            story.append(f"The {self.pick([x for x in SPECIES if x not in (a, b)])} sings too: {line}.")
        return story

    # Two to four facts of one kind, then questions about them.

    def facts(self):
        r = self.random
        n = r.randint(2, 4)
        people, species, objects = r.sample(NAMES, n), r.sample(SPECIES, n), r.sample(OBJECTS, n)
        colors = [self.pick(COLORS) for _ in range(n)]
        places = r.sample(PLACES, n)
        kind = r.randint(0, 3)
        story, questions = [], []
        for (name, pronoun), animal, thing, color, place in zip(people, species, objects, colors, places):
            if kind == 0:
                story.append(f"{name} has a {color} {thing}.")
                questions += [f"What color is the {thing}? The {thing} is {color}.",
                              f"Who has the {thing}? {name} has the {color} {thing}.",
                              f"What does {name} have? {name} has a {color} {thing}."]
            elif kind == 1:
                story.append(f"{name} is a {animal}.")
                questions += [f"Who is {name}? {name} is a {animal}.", f"Who is the {animal}? The {animal} is {name}."]
            elif kind == 2:
                story.append(f"{name} lives {at(place)}.")
                questions += [f"Where does {name} live? {pronoun} lives {at(place)}.",
                              f"Who lives {at(place)}? {name} lives {at(place)}."]
            else:
                story.append(f"The {animal} has a {color} {thing}.")
                questions += [f"What color is the {thing}? The {thing} is {color}.",
                              f"Who has the {thing}? The {animal} has the {color} {thing}."]
        if kind in (0, 3) and self.chance(0.4):
            owners = [name for name, _ in people] if kind == 0 else ["the " + x for x in species]
            i, j = r.sample(range(n), 2)
            thing, given = objects[i], f"the {colors[i]} {objects[i]}"
            story += [f"{capital(owners[i])} gives {given} to {owners[j]}.", f"Now {owners[j]} has {given}."]
            questions = [q for q in questions if not q.startswith((f"Who has the {thing}?", "What does "))]
            questions += [f"Who has the {thing}? {capital(owners[j])} has {given}."] * 2
        return story + self.some(questions, 2, 4)

    def count(self):
        r = self.random
        name, pronoun = self.pick(NAMES)
        thing = self.pick(["apple", "book", "flower", "cake", "ball"])
        have = r.randint(1, 6)

        def amount():
            return f"{NUMBERS[have]} {thing if have == 1 else thing + 's'}"

        story = [f"{name} has {amount()}."]
        for _ in range(r.randint(1, 2)):
            if self.chance(0.55) and have < 10:
                change = r.randint(1, min(3, 10 - have))
                have += change
                story.append(f"{pronoun} finds {NUMBERS[change]} more.")
            elif have > 1:
                change = r.randint(1, min(3, have - 1))
                have -= change
                story.append(f"{pronoun} loses {NUMBERS[change]}.")
            story.append(f"Now {name} has {amount()}.")
        return story

    # The long form: characters with a species, a home, a whereabouts and belongings.

    def world(self):
        r = self.random
        n = r.randint(2, 3)
        people, species = r.sample(NAMES, n), r.sample(SPECIES, n)
        places, objects = r.sample(PLACES, 3), r.sample(OBJECTS, 3)
        colors = [self.pick(COLORS) for _ in objects]
        things = [f"{c} {o}" for c, o in zip(colors, objects)]
        info = {name: {"pronoun": pronoun, "species": animal, "home": home, "at": home, "has": []}
                for (name, pronoun), animal, home in zip(people, species, places)}
        names = list(info)
        hero = names[0]
        story = self.introduce(hero, info, things)
        for _ in range(r.randint(2, 6)):
            story += self.event(info, places)
        questions = self.world_questions(info)
        r.shuffle(questions)
        if self.chance(0.5):
            home = info[hero]["home"]
            story.append(self.pick([f"At night {hero} goes home to the {home}.", f"In the evening {hero} goes home to the {home}."]))
            questions = [q for q in questions if f"Where is {hero} now" not in q]
        if self.chance(0.4):
            story.append("The end.")
        return story + questions[:r.randint(1, 3)]

    def introduce(self, hero, info, things):
        me = info[hero]
        story = [self.pick([f"Once there was a {me['species']} named {hero}.", f"{hero} is a {me['species']}.",
                            f"Once upon a time there was a {me['species']} named {hero}."]),
                 f"{me['pronoun']} lives {at(me['home'])}."]
        me["has"].append(things[0])
        story.append(self.pick([f"{me['pronoun']} has a {things[0]}.", f"{hero} has a {things[0]}."]))
        for i, name in enumerate(list(info)[1:], 1):
            other = info[name]
            story.append(self.pick([f"{name} is a {other['species']}.",
                                    f"{hero} has a friend named {name}. {name} is a {other['species']}."]))
            story.append(f"{other['pronoun']} lives {at(other['home'])}.")
            if self.chance(0.7):
                other["has"].append(things[i])
                story.append(f"{name} has a {things[i]}.")
        return story

    def event(self, info, places):
        """One thing that happens between two characters; the world changes with it."""
        a = self.pick(list(info))
        b = self.pick([x for x in info if x != a])
        A, B = info[a], info[b]
        when = self.pick(["", "", "", "Then ", "One day ", "Soon ", "After that "])
        what = self.random.random()
        if A["at"] != B["at"]:
            A["at"] = B["at"]
            return [capital(f"{when}{a} goes to the {B['at']}."),
                    self.pick([f"{a} sees {b}.", f"{b} is happy to see {a}.", f'"Hello, {b}," says {a}.'])]
        if what < 0.4 and A["has"]:
            thing = self.pick(A["has"])
            A["has"].remove(thing)
            B["has"].append(thing)
            return [capital(f"{when}{a} gives the {thing} to {b}."),
                    self.pick([f"Now {b} has the {thing}.", f'"Thank you, {a}," says {b}.', f"{b} thanks {a}."])]
        if what < 0.6:
            verb = self.pick(list(VERBS))
            return [capital(f"{when}{a} {verb} {b}."), f"{b} {VERBS[verb][1]} {a}."]
        if what < 0.8:
            place = self.pick([x for x in places if x != A["at"]])
            A["at"] = B["at"] = place
            return [capital(f"{when}{a} and {b} go to the {place} together.")]
        feeling = self.pick(FEELINGS)
        return [self.pick([f"{a} is {feeling}.", f"{a} and {b} play together.", f"{a} and {b} are good friends.",
                           f"They are {feeling}."])]

    def world_questions(self, info):
        questions = []
        for name, who in info.items():
            questions.append(f"Who is {name}? {name} is a {who['species']}.")
            questions.append(f"Where does {name} live? {who['pronoun']} lives {at(who['home'])}.")
            if self.chance(0.5):
                belongings = " and ".join(f"a {thing}" for thing in who["has"]) or "nothing"
                questions.append(f"What does {name} have? {name} has {belongings}.")
            for thing in who["has"]:
                color, noun = thing.split()
                questions.append(f"Who has the {noun}? {name} has the {thing}.")
                questions.append(f"What color is the {noun}? The {noun} is {color}.")
            questions.append(f"Where is {name} now? {name} is {at(who['at'])}.")
        return questions

    # share of the stories, as a running total
    KINDS = [(0.20, roles), (0.30, chain), (0.36, bare), (0.41, love), (0.60, song), (0.80, facts), (0.87, count), (1.00, world)]

    def story(self):
        k = self.random.random()
        kind = next(kind for limit, kind in self.KINDS if k < limit)
        return " ".join(kind(self)).replace(" a owl", " an owl").replace("a apple", "an apple")


def main(seed, count, out):
    grammar = Grammar(int(seed))
    with open(out, "w", encoding="utf-8") as f:
        for _ in range(int(count)):
            f.write(grammar.story() + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: generate.py SEED COUNT OUT")
    main(*sys.argv[1:])
