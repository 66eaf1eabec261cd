"""Labelled pairs from sentences, by edits that keep the meaning or change it.

Edits that keep the meaning are stacked on those that change it, so that the judge does not learn to
take the amount of editing as a sign of another fact. Replacement words come from the lexicon.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random

from streams.text.function_words import FUNCTION_WORDS
from streams.text.lexicon import Lexicon, Relation
from training.frames import UPDATED, Labelled, converse
from training.values import NUMBERS, listed

Edit = Callable[[str, Random], str | None]

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_LAST = re.compile(
    r"\w \w+ \w+ ((?:in|on|at|with|for|during|after|before|because|near|every|since|until|without)"
    r" (?:\w+ ){0,4}\w+)[.]?$"
)
_QUALITY = re.compile(r"\b(?:the|a|an|my|his|her|two|some) ([a-z]+) (?=[a-z]{3,})")
_AS_OFTEN = 60
"""Maximum distance in a list sorted by frequency."""
_BEFORE_NOUN = re.compile(
    r"\b(the|a|an|my|his|her|their|of|to|by|in|at|for|from|with) $", re.IGNORECASE
)
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|has|have|had|must)\b(?! not)"
)
_PAIRS = (
    "before after", "above below", "inside outside", "with without", "always never", "up down",
    "left right", "first last", "all none", "everyone nobody", "into out_of", "to from", "on off",
    "more less", "over under", "most least", "many few", "often rarely", "both neither",
    "in_front_of behind", "day night", "next_to far_from", "morning evening", "all some", "some no",
    "these no", "early late", "inside outdoors", "indoors outdoors", "at_least at_most", "every no",
)  # fmt: skip
_OPPOSED = {
    a.replace("_", " "): b.replace("_", " ")
    for pair in _PAIRS
    for a, b in (pair.split(), pair.split()[::-1])
}
_OPPOSABLE = re.compile(
    rf"\b({'|'.join(sorted(_OPPOSED, key=len, reverse=True))})\b", re.IGNORECASE
)
_CONTRACTED = {
    "is not": "isn't", "are not": "aren't", "was not": "wasn't", "do not": "don't",
    "does not": "doesn't", "did not": "didn't", "cannot": "can't", "will not": "won't",
    "I am": "I'm", "it is": "it's", "he is": "he's", "she is": "she's", "they are": "they're",
    "I have": "I've", "we are": "we're", "has not": "hasn't", "have not": "haven't",
}  # fmt: skip
_SPOKEN = (
    "User said that {}", "The user mentioned that {}", "It was noted that {}", "{}, the user said",
    "According to the notes, {}", "The user reported that {}", "We learned that {}",
)  # fmt: skip
_RARE_SENSE = 4
"""Words that are rarer than this in WordNet's tagged texts have unusual senses."""
_KINDS = (
    "colour", "country", "city", "weekday", "month", "season", "material", "food", "drink", "animal",
    "sport", "instrument", "room", "furniture", "vehicle", "clothing", "tool", "language", "job",
    "relative", "direction", "person", "planet", "nationality", "ordinal", "crop", "whom", "unit",
)  # fmt: skip
"""Lists of `values` whose members are mutually exclusive."""
_REWORDED = (
    "because = since", "near = close to", "beside = next to", "although = though", "about = around",
    "approximately = about", "almost = nearly", "many = a lot of", "several = a number of",
    "each = every", "often = frequently", "usually = normally", "sometimes = occasionally",
    "rarely = seldom", "currently = at the moment", "now = at present", "also = too", "begin = start",
    "begins = starts", "began = started", "buy = purchase", "bought = purchased", "big = large",
    "small = little", "kid = child", "kids = children", "couch = sofa", "movie = film",
    "photo = picture", "tv = television", "phone = telephone", "plane = airplane", "bike = bicycle",
    "mom = mother", "dad = father", "gets = receives", "got = received", "needs = requires",
    "need = require", "wants to = would like to", "lives in = resides in", "live in = reside in",
    "works for = is employed by", "works at = is employed at", "is able to = can", "has to = must", "have to = must", "is located in = lies in", "says = states", "said = stated",
    "told = informed", "shows = displays", "tries to = attempts to", "helps = assists",
    "speaking = talking", "walking = strolling", "jumping = leaping", "cutting = slicing",
    "road = street", "stones = rocks", "person = individual", "woman = lady", "man = guy",
    "speedily = quickly", "quickly = rapidly", "happy = glad", "sick = ill", "angry = mad",
    "scared = afraid", "smart = clever", "enjoys = likes", "enjoy = like", "favorite = preferred",
    "twice = two times", "annually = every year", "weekly = every week", "daily = every day",
    "lawyer = attorney", "doctor = physician", "boss = manager", "holiday = vacation",
    "trip = journey", "mistake = error", "shop = store", "job = occupation", "autumn = fall",
    "can = is able to", "may = might", "however = but", "made = created", "built = constructed",
    "founded = established", "was born in = came from", "located = situated", "known as = called",
    "main = principal", "famous = well known", "total = overall", "up to = as many as",
    "at least = no fewer than", "more than = over", "less than = under", "killed = slain",
    "died = passed away", "announced = declared", "increased = rose", "decreased = fell",
    "ended = finished", "chose = selected", "before = prior to", "after = following",
    "best way = easiest way", "how do I = how can I", "how can I = what is the way to",
    "what are some = which are some", "difference between = distinction between",
)  # fmt: skip
_BY_KIND = ""
"""The label depends on the inserted word."""
_MEANT = {
    a: b
    for pair in _REWORDED
    for a, b in (pair.split(" = "), pair.split(" = ")[::-1])
    if (a, b) != ("came from", "was born in")
}
_FILLERS = ("really", "actually", "certainly", "just", "simply", "indeed")
_PHRASE = 4
_SMALL = frozenset(
    [
        "a", "an", "the", "some", "two", "three", "four", "my", "his", "her", "our", "their", "your",
        "it", "he", "she", "they", "we", "this", "that", "there", "no", "one", "many", "several",
        "in", "on", "at", "during", "after", "before", "since", "when", "if", "while", "every",
    ]
)  # fmt: skip
_SAME_SHARE = 0.38
_DENIED_TAILS = (
    "",
    "",
    ".",
    ".",
    " at all.",
    " today.",
    " for me.",
    " in this case.",
    " with that",
)
_PREFIXES = ("un", "in", "im", "dis", "ir", "non", "il")
_SUBJECTS = (
    "It", "This", "That", "He", "She", "The plan", "The answer", "My house", "The road", "Her story",
    "The weather", "The test", "The user", "Our boss", "Anna", "The new version", "His idea", "The service",
)  # fmt: skip
_BETWEEN = re.compile(
    r"\b([\w']+) (than|over|before|after|by|of|for|with) ((?:the |a )?[A-Z]?[\w']+)(?=[ .,]|$)"
)
_BEING = re.compile(r"\b(is|are|was|were|am)( not|n't)? (very |really |so |quite |too )?([a-z]+)\b")


class Editor:
    """Makes pairs from sentences; the same random seed gives the same pairs."""

    def __init__(self, lexicon: Lexicon, sentences: Sequence[str], chance: Random) -> None:
        """`sentences` are the source of the words and phrases to insert."""
        vocabulary = sorted(
            {word for text in sentences for word in re.findall(r"[a-z]+", text.lower())}
        )
        self._tails = sorted({found[1] for text in sentences if (found := _LAST.search(text))})
        self._qualities = sorted(
            {
                found[1]
                for text in sentences
                for found in _QUALITY.finditer(text)
                if _is_quality(lexicon, found[1])
            }
        )
        self._form = _forms_alike(lexicon, vocabulary)
        self._lexicon = lexicon
        self._chance = chance
        self._related = _relatives(lexicon, vocabulary)
        self._participles = defaultdict[str, list[str]](list)
        for word in vocabulary:
            base = lexicon.lemma(word, "v")
            if base != word and not word.endswith(("ing", "s")):
                self._participles[base].append(word)
        self._kinds = _kinds()
        self._updated = {
            spelt
            for word, members in self._kinds.items()
            if any(
                members[0] in listed(kind)
                for kind in _KINDS
                if kind in UPDATED | {"ordinal", "unit"}
            )
            for spelt in (word, word.capitalize())
        }
        self._denials = _denials(lexicon, vocabulary)
        self._keeping: list[tuple[Edit, float]] = [
            (self._synonym, 2), (_reworded, 4), (self._simple, 1.5), (self._passive, 3),
            (_active, 3), (_there, 1), (_article, 1), (_relative, 1), (_fronted, 2),
            (_unfronted, 1), (_spoken, 0.7), (_contracted, 2), (_spelt_number, 1.5),
            (_reversed_list, 2), (_tokenised, 0.4), (_lowered, 0.5), (_thirdly, 1.5), (_no_stop, 0.5),
            (_filled, 0.7), (self._twice_denied, 4), (_turned_clauses, 2), (_owned, 1),
        ]  # fmt: skip
        self._changing: list[tuple[Edit, str, str, float]] = [
            (self._antonym, "contradicts", "antonym", 2.5),
            (self._other_kind, _BY_KIND, "kind", 4),
            (self._sibling, "distinct", "sibling", 1),
            (_opposed, "contradicts", "opposed", 3),
            (_negated, "contradicts", "negated", 3.5),
            (_denied_all, "contradicts", "denied", 0.5),
            (_renumbered, "contradicts", "number", 3),
            (_swapped, "distinct", "swap", 5),
            (_exchanged_ends, "distinct", "ends", 4),
            (_asked_else, "distinct", "asked", 2),
            (self._another, "distinct", "another", 3),
            (self._tailed, "refines", "tail", 1.2),
            (self._qualified, "refines", "quality", 1.2),
            (_unqualified, "refined-by", "unqualified", 1),
            (_cut, "refined-by", "cut", 1.5),
            (self._broader, "refined-by", "broader", 0.5),
        ]

    def pairs(self, sentence: str, count: int) -> Iterator[Labelled]:
        """Yield up to `count` pairs of a sentence and its edits."""
        for _ in range(count):
            pair = (
                self._same(sentence)
                if self._chance.random() < _SAME_SHARE
                else self._changed(sentence)
            )
            if pair is not None and pair.event != pair.memory:
                yield pair if self._chance.random() < 0.5 else converse(pair)

    def denials(self, count: int) -> Iterator[Labelled]:
        """Yield pairs of short statements that affirm or deny a quality or its opposite."""
        words = sorted(self._denials)
        for _ in range(count):
            quality = self._chance.choice(words)
            opposite = self._chance.choice(self._denials[quality])
            subject, tail = self._chance.choice(_SUBJECTS), self._chance.choice(_DENIED_TAILS)
            verb = self._chance.choice(["is", "is", "was", "seems"])
            no = {
                "is": ["is not", "isn't"],
                "was": ["was not", "wasn't"],
                "seems": ["does not seem", "doesn't seem"],
            }
            is_so = [
                f"{subject} {verb} {quality}{tail}",
                f"{subject} {self._chance.choice(no[verb])} {opposite}{tail}",
            ]
            is_not = [
                f"{subject} {self._chance.choice(no[verb])} {quality}{tail}",
                f"{subject} {verb} {opposite}{tail}",
            ]
            yield Labelled(*self._chance.sample(is_so, 2), "same", "denials-same")
            yield Labelled(*self._chance.sample(is_not, 2), "same", "denials-same")
            yield Labelled(
                self._chance.choice(is_so), self._chance.choice(is_not), "contradicts", "denials"
            )

    def _same(self, sentence: str) -> Labelled | None:
        edits = self._chance.choice([1, 1, 2, 2, 3])
        other = self._kept(sentence, edits // 2) if self._chance.random() < 0.5 else sentence
        edited = self._kept(sentence, edits)
        return None if edited == other else Labelled(edited, other, "same", "edit-same")

    def _changed(self, sentence: str) -> Labelled | None:
        weights = [row[3] for row in self._changing]
        for edit, label, name, _ in self._chance.choices(self._changing, weights, k=8):
            edited = edit(sentence, self._chance)
            if edited is None or _bare(edited) == _bare(sentence):
                continue
            told = label or self._excluded(sentence, edited)
            other = self._kept(sentence, self._chance.choice([0, 0, 1]))
            edited = self._kept(edited, self._chance.choice([0, 0, 1, 2]))
            return Labelled(edited, other, told, f"edit-{name}")
        return None

    def _kept(self, text: str, edits: int) -> str:
        done: list[Edit] = []
        weights = [weight for _, weight in self._keeping]
        for edit, _ in self._chance.choices(self._keeping, weights, k=6 * edits):
            edited = None if edit in done or len(done) == edits else edit(text, self._chance)
            if edited and edited != text:
                text = edited
                done.append(edit)
        return text

    def _twice_denied(self, text: str, chance: Random) -> str | None:
        """Rewrite "is happy" as "is not unhappy", and "is not happy" as "is unhappy"."""
        found = _BEING.search(text)
        if found is None or found[4] not in self._denials:
            return None
        opposite = chance.choice(self._denials[found[4]])
        denied = "" if found[2] else " not"
        return f"{text[: found.start()]}{found[1]}{denied} {found[3] or ''}{opposite}{text[found.end() :]}"

    def _other_kind(self, text: str, chance: Random) -> str | None:
        """Replace a word by another of its kind: a colour by a colour, a month by a month."""
        words = [word for word in _WORD.finditer(text) if self._kind_of(word)]
        if not words:
            return None
        word = chance.choice(words)
        other = chance.choice(
            [one for one in self._kind_of(word) if one.lower() != word[0].lower()]
        )
        return _with_article(f"{text[: word.start()]}", _cased(other, word[0]), text[word.end() :])

    def _another(self, text: str, chance: Random) -> str | None:
        """Replace one word by any other of its form with a similar frequency."""
        words = [word for word in _WORD.finditer(text) if self._form.get(word[0].lower())]
        if not words:
            return None
        word = chance.choice(words)
        group, at = self._form[word[0].lower()]
        other = group[max(0, min(len(group) - 1, at + chance.randint(-_AS_OFTEN, _AS_OFTEN)))]
        return _with_article(text[: word.start()], _cased(other, word[0]), text[word.end() :])

    def _tailed(self, text: str, chance: Random) -> str | None:
        """Append the final phrase of another sentence."""
        if text.rstrip().endswith("?"):
            return None
        stop = "." if text.endswith(".") else ""
        return f"{text.rstrip('. ')} {chance.choice(self._tails)}{stop}"

    def _qualified(self, text: str, chance: Random) -> str | None:
        """Insert an adjective before a noun."""
        places = list(re.finditer(r"\b(?:the|a|an|my|his|her|their|two|some) (?=[a-z]{3,})", text))
        if not places:
            return None
        place = chance.choice(places)
        return _with_article(
            text[: place.end()], chance.choice(self._qualities), f" {text[place.end() :]}"
        )

    def _excluded(self, sentence: str, edited: str) -> str:
        """Return "contradicts" if the new word excludes the old one, since a fact has one date."""
        fresh = set(_WORD.findall(edited)) - set(_WORD.findall(sentence))
        return "contradicts" if fresh & self._updated else "distinct"

    def _kind_of(self, word: re.Match[str]) -> list[str]:
        known = self._kinds.get(word[0]) or self._kinds.get(word[0].lower(), [])
        return [] if known and known[0][0].isupper() and word[0].islower() else known

    def _synonym(self, text: str, chance: Random) -> str | None:
        return self._exchanged(text, Relation.SYNONYM, chance)

    def _antonym(self, text: str, chance: Random) -> str | None:
        return self._exchanged(text, Relation.ANTONYM, chance)

    def _sibling(self, text: str, chance: Random) -> str | None:
        return self._exchanged(text, Relation.SIBLING, chance)

    def _broader(self, text: str, chance: Random) -> str | None:
        return self._exchanged(text, Relation.BROADER, chance)

    def _simple(self, text: str, chance: Random) -> str | None:
        """Rewrite "is playing" as "plays"."""
        del chance
        found = re.search(r"\b(is|are) (\w+ing)\b", text)
        if found is None:
            return None
        verb = self._lexicon.lemma(found[2].lower(), "v")
        told = verb if found[1] == "are" else _third(verb)
        return (
            None if verb.endswith("ing") else f"{text[: found.start()]}{told}{text[found.end() :]}"
        )

    def _passive(self, text: str, chance: Random) -> str | None:
        """Rewrite "a man is peeling a potato" as "a potato is being peeled by a man"."""
        del chance
        found = re.match(
            r"((?:A|An|The|Two|Three|Some) [\w ]+?) (?:is|are) (\w+ing) ((?:a|an|the|some|his|her) \w+)(.*)$",
            text,
        )
        if found is None:
            return None
        verb = self._lexicon.lemma(found[2].lower(), "v")
        done = self._participle(verb)
        doer = found[1][:1].lower() + found[1][1:]
        thing = found[3][:1].upper() + found[3][1:]
        stop = "." if found[4].endswith(".") else ""
        return f"{thing} is being {done} by {doer}{found[4].rstrip('.')}{stop}"

    def _participle(self, verb: str) -> str:
        irregular = sorted(self._participles.get(verb, ()), key=lambda form: form.endswith("n"))
        regular = f"{verb}d" if verb.endswith("e") else f"{verb}ed"
        return irregular[-1] if irregular else regular

    def _exchanged(self, text: str, relation: Relation, chance: Random) -> str | None:
        """Replace one word by another with this relation to it, in the same capitalisation."""
        words = [
            word for word in _WORD.finditer(text) if (word[0].lower(), relation) in self._related
        ]
        if not words:
            return None
        word = chance.choice(words)
        other = chance.choice(self._related[word[0].lower(), relation])
        return _with_article(text[: word.start()], _cased(other, word[0]), text[word.end() :])


def _relatives(
    lexicon: Lexicon, vocabulary: Sequence[str]
) -> dict[tuple[str, Relation], list[str]]:
    """Return, for each word and relation, the words of the vocabulary with that relation to it.

    Only clear cases count: the same form, the most common senses, and no conflicting relation.
    """
    by_sense = defaultdict[tuple[str, int], list[str]](list)
    by_parent = defaultdict[tuple[str, int], list[str]](list)
    by_lemma = defaultdict[tuple[str, str], list[str]](list)
    forms = [
        (word, form, lemma, sense)
        for word in vocabulary
        if lexicon.frequency(word) >= _RARE_SENSE and word not in FUNCTION_WORDS
        for form, lemma, sense in _forms(lexicon, word)
    ]
    for word, form, lemma, sense in forms:
        by_sense[form, sense].append(word)
        by_lemma[form, lemma].append(word)
        for parent in lexicon.parents(sense):
            by_parent[form, parent].append(word)
    related = defaultdict[tuple[str, Relation], list[str]](list)
    for word, form, lemma, sense in forms:
        parents = lexicon.parents(sense)
        entry = lexicon.entry(lemma)
        found = {
            Relation.SYNONYM: by_sense[form, sense],
            Relation.BROADER: [other for parent in parents for other in by_sense[form, parent]],
            Relation.SIBLING: [other for parent in parents for other in by_parent[form, parent]],
            Relation.ANTONYM: [
                other
                for base in (entry.antonyms if entry else ())
                for other in by_lemma[form, base]
            ],
        }
        for relation, others in found.items():
            if relation is Relation.SIBLING and not form.startswith("n"):
                continue
            related[word, relation] += [
                other for other in sorted(set(others)) if _clear(lexicon, word, other, relation)
            ]
    return {key: others for key, others in related.items() if others}


def _clear(lexicon: Lexicon, word: str, other: str, relation: Relation) -> bool:
    if word == other or lexicon.lemma(word) == lexicon.lemma(other):
        return False
    apart = {Relation.SYNONYM, Relation.SIMILAR, Relation.DERIVED}
    return relation is Relation.SYNONYM or not lexicon.relations(word, other) & apart


def _forms(lexicon: Lexicon, word: str) -> Iterator[tuple[str, str, int]]:
    """Yield a word's analyses: part of speech with ending, base form, most common sense."""
    ending = next(ending for ending in ("ing", "ed", "s", "") if word.endswith(ending))
    for pos in sorted(pos for pos in lexicon.parts_of_speech(word) if lexicon.is_mostly(word, pos)):
        lemma = lexicon.lemma(word, pos)
        entry = lexicon.entry(lemma)
        if entry is not None and pos in entry.senses:
            yield f"{pos} {'' if lemma == word else ending}", lemma, entry.senses[pos][0]


def _forms_alike(lexicon: Lexicon, vocabulary: Sequence[str]) -> dict[str, tuple[list[str], int]]:
    """Return, for each word, the words of its form by rising frequency, and its position there."""
    groups = defaultdict[str, list[str]](list)
    for word in vocabulary:
        forms = {form for form, _, _ in _forms(lexicon, word)}
        if len(forms) == 1 and lexicon.frequency(word) > 0 and word not in FUNCTION_WORDS:
            groups[forms.pop()].append(word)
    for group in groups.values():
        group.sort(key=lambda word: (lexicon.frequency(word), word))
    return {word: (group, at) for group in groups.values() for at, word in enumerate(group)}


def _is_quality(lexicon: Lexicon, word: str) -> bool:
    return lexicon.is_mostly(word, "a") and lexicon.frequency(word) >= _RARE_SENSE


def _kinds() -> dict[str, list[str]]:
    """Return, for each member of a kind, all its members, in the singular or in the plural."""
    kinds: dict[str, list[str]] = {}
    for name in _KINDS:
        members = listed(name)
        for group in (members, [f"{member}s" for member in members if member[-1] not in "sxy"]):
            for member in group:
                kinds.setdefault(member, group)
    return kinds


def _denials(lexicon: Lexicon, vocabulary: Sequence[str]) -> dict[str, list[str]]:
    """Return the adjectives that a prefix negates, with their opposites, in both directions."""
    found = defaultdict[str, list[str]](list)
    for plain in vocabulary:
        entry = lexicon.entry(plain) if lexicon.frequency(plain) >= _RARE_SENSE else None
        if entry is None or "a" not in entry.senses:
            continue
        for denied in sorted(entry.antonyms & {f"{prefix}{plain}" for prefix in _PREFIXES}):
            found[plain].append(denied)
            found[denied].append(plain)
    return dict(found)


def _bare(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def _with_article(before: str, word: str, behind: str) -> str:
    """Insert a word, and adapt a preceding "a" or "an" to it."""
    fitting = r"\1n " if word[:1].lower() in "aeiou" else r"\1 "
    before = re.sub(r"\b([Aa])n? $", fitting, before)
    return f"{before}{word}{behind}"


def _cased(word: str, like: str) -> str:
    return word.capitalize() if like[:1].isupper() else word


def _fronted(text: str, chance: Random) -> str | None:
    """Move a final phrase of place or time to the front."""
    del chance
    found = re.fullmatch(
        r"(.+?\w) ((?:in|on|at|during|after|before|because|since|when|if|while) [^,.]+?)([.]?)",
        text,
    )
    if found is None or len(found[1].split()) < 3:
        return None
    first = found[1] if found[1].startswith("I ") else found[1][:1].lower() + found[1][1:]
    return f"{found[2][:1].upper()}{found[2][1:]}, {first}{found[3]}"


def _there(text: str, chance: Random) -> str | None:
    """Rewrite "a dog is running" as "there is a dog running", or back."""
    del chance
    if found := re.match(r"(A|An|Two|Three|Some) ([\w ]+?) (is|are) (\w+ing\b.*)$", text):
        return f"There {found[3]} {found[1].lower()} {found[2]} {found[4]}"
    if found := re.match(r"There (is|are) (\w+) ([\w ]+?) (\w+ing\b.*)$", text):
        return f"{found[2].capitalize()} {found[3]} {found[1]} {found[4]}"
    return None


def _article(text: str, chance: Random) -> str | None:
    """Swap an article: in a caption "a man" and "the man" mean the same."""
    places = list(re.finditer(r"\b(A|The|a|the) (?=[a-z]{3,})", text))
    if not places:
        return None
    place = chance.choice(places)
    told = {"a": "the", "A": "The", "the": "a", "The": "A"}[place[1]]
    rest = text[place.end() :]
    if told in {"a", "A"} and (rest[0] in "aeiou" or rest.split()[0].rstrip(".,").endswith("s")):
        return None
    return f"{text[: place.start()]}{told} {rest}"


def _relative(text: str, chance: Random) -> str | None:
    """Insert or remove "who is"."""
    del chance
    if re.search(r"\b(who|which|that) (is|are) ", text):
        return re.sub(r"\b(who|which|that) (is|are) ", "", text, count=1)
    found = re.match(
        r"((?:A|The) (?:man|woman|boy|girl|person|dog|cat|child)) (in|with|\w+ing) ", text
    )
    if found is None:
        return None
    whom = "which" if found[1].endswith(("dog", "cat")) else "who"
    return f"{found[1]} {whom} is {text[found.start(2) :]}"


def _spoken(text: str, chance: Random) -> str:
    said = text.rstrip(". ")
    form = chance.choice(_SPOKEN)
    keeps = said.startswith(("I ", "I'")) or not form.endswith("{}")
    inner = said if keeps else said[:1].lower() + said[1:]
    return form.format(inner) + "."


def _contracted(text: str, chance: Random) -> str | None:
    del chance
    for long, short in _CONTRACTED.items():
        if re.search(rf"\b{long}\b", text):
            return re.sub(rf"\b{long}\b", short, text, count=1)
        if short in text:
            return text.replace(short, long, 1)
    return None


def _spelt_number(text: str, chance: Random) -> str | None:
    del chance
    if found := re.search(r"(?<![\d.:$])\b(\d|1[0-2])\b(?![\d.:%-])", text):
        return f"{text[: found.start()]}{NUMBERS[int(found[1])]}{text[found.end() :]}"
    if found := re.search(r"\b(" + "|".join(NUMBERS[2:]) + r")\b", text):
        return f"{text[: found.start()]}{NUMBERS.index(found[1])}{text[found.end() :]}"
    return None


def _reversed_list(text: str, chance: Random) -> str | None:
    del chance
    found = re.search(r"\b(\w+) (and|or) (\w+)\b", text)
    if found is None or found[1].lower() in {"he", "she", "it", "they"}:
        return None
    return f"{text[: found.start()]}{found[3]} {found[2]} {found[1]}{text[found.end() :]}"


def _tokenised(text: str, chance: Random) -> str:
    del chance
    return re.sub(r"\s+", " ", re.sub(r"([.,!?;:\"()]|'s\b|n't\b)", r" \1", text)).strip()


def _lowered(text: str, chance: Random) -> str:
    del chance
    return text.lower()


def _no_stop(text: str, chance: Random) -> str:
    del chance
    return text[:-1] if text.endswith(".") else f"{text}."


def _thirdly(text: str, chance: Random) -> str | None:
    """Rewrite a first-person statement in the third person."""
    if not re.match(r"(I am|I'm|My|I have|I) ", text):
        return None
    whom = chance.choice(["The user", "User"])
    text = re.sub(r"^(I am|I'm) ", f"{whom} is ", text)
    text = re.sub(r"^I have ", f"{whom} has ", text)
    text = re.sub(r"^My ", f"{whom}'s ", text)
    text = re.sub(r"^I (\w+)\b", lambda verb: f"{whom} {_third(verb[1])}", text)
    return re.sub(r"\bmy\b", "their", text)


def _third(verb: str) -> str:
    if verb in {"can", "will", "would", "should", "could", "must"} or verb.endswith("ed"):
        return verb
    irregular = {"do": "does", "don't": "doesn't", "go": "goes", "was": "was", "had": "had"}
    return irregular.get(verb) or (verb + ("es" if verb.endswith(("sh", "ch", "ss")) else "s"))


def _negated(text: str, chance: Random) -> str | None:
    """Negate a sentence, or remove its negation."""
    if re.search(r"\b(not|n't|never|no longer)\b", text):
        plain = re.sub(r"\b(can)not\b", r"\1", text)
        plain = re.sub(r"\b(not|never|no longer) |n't\b", "", plain, count=1)
        return plain if plain != text else None
    if chance.random() < 0.3 and (found := re.match(r"(A|An|The|Some) (\w+)", text)):
        none = chance.choice(["No", "There is no"])
        rest = text[found.end() :]
        return f"{none} {found[2]}{rest.replace(' is ', ' ', 1) if none != 'No' else rest}"
    if found := _AUXILIARY.search(text):
        word = chance.choice(["not", "not", "never", "no longer"])
        return f"{text[: found.end()]} {word}{text[found.end() :]}"
    if found := re.match(r"(I|We|They|You) (\w+)", text):
        denied = chance.choice(["don't", "do not", "never", "no longer"])
        return f"{found[1]} {denied} {found[2]}{text[found.end() :]}"
    if found := re.match(
        r"((?:An?|The|My|His|Her) \w+|He|She|It|[A-Z]\w+) (\w+[^s])s (?=\w)", text
    ):
        denied = chance.choice(["does not", "doesn't"])
        return f"{found[1]} {denied} {found[2]} {text[found.end() :]}"
    return None


def _opposed(text: str, chance: Random) -> str | None:
    """Replace a function word, or one of a few words of place or time, by its opposite."""
    places = list(_OPPOSABLE.finditer(text))
    if not places:
        return None
    place = chance.choice(places)
    other = _cased(_OPPOSED[place[0].lower()], place[0])
    return f"{text[: place.start()]}{other}{text[place.end() :]}"


def _renumbered(text: str, chance: Random) -> str | None:
    if found := re.search(r"\b\d+\b", text):
        value = int(found[0])
        other = max(0, value + chance.choice([-2, -1, 1, 2, 5, 10, value or 3]))
        return f"{text[: found.start()]}{other}{text[found.end() :]}"
    if found := re.search(r"\b(" + "|".join(NUMBERS[1:]) + r")\b", text):
        other_word = chance.choice([word for word in NUMBERS[1:] if word != found[1]])
        return f"{text[: found.start()]}{other_word}{text[found.end() :]}"
    return None


def _swapped(text: str, chance: Random) -> str | None:
    """Swap two nouns or names that are not in one list: who does what to whom, or where."""
    nouns = [
        word
        for word in _WORD.finditer(text)
        if len(word[0]) > 2 and _BEFORE_NOUN.search(text[: word.start()])
    ]
    found = [
        (one, other)
        for one in nouns
        for other in nouns
        if one.end() + 4 < other.start()
        and one[0].lower() != other[0].lower()
        and one[0][0].isupper() == other[0][0].isupper()
        and text[one.end() : other.start()].strip() not in {"and", "or", "and the", "or the"}
    ]
    if not found:
        return None
    one, other = chance.choice(found)
    between = text[one.end() : other.start()]
    return f"{text[: one.start()]}{other[0]}{between}{one[0]}{text[other.end() :]}"


def _unqualified(text: str, chance: Random) -> str | None:
    del chance
    found = re.search(
        r"\b(the|a|an|my|his|her) ([a-z]+(?:y|ful|ous|ed|en|al|ic|ive)) (?=[a-z]{3,})", text
    )
    return None if found is None else f"{text[: found.start()]}{found[1]} {text[found.end() :]}"


def _cut(text: str, chance: Random) -> str | None:
    """Remove a final phrase."""
    del chance
    found = re.fullmatch(
        r"(\w+ \w+ \w+ .+?) (?:in|on|at|with|for|during|after|because|near) [^,.]+([.]?)", text
    )
    return None if found is None else f"{found[1]}{found[2]}"


def _reworded(text: str, chance: Random) -> str | None:
    """Replace a short phrase by a synonymous one."""
    lower = text.lower()
    places = [
        (found, meant)
        for phrase, meant in _MEANT.items()
        if phrase in lower
        and (found := re.search(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", lower))
    ]
    if not places:
        return None
    found, meant = chance.choice(places)
    return _with_article(
        text[: found.start()], _cased(meant, text[found.start() : found.end()]), text[found.end() :]
    )


def _active(text: str, chance: Random) -> str | None:
    """Rewrite "B was visited by A" as "A visited B", for participles in -ed."""
    del chance
    found = re.fullmatch(r"(.+?) (was|were|is|are) (\w+(?:ed|en|wn|lt|de)) by ([^,.]+)([.]?)", text)
    if found is None or len(found[4].split()) > _PHRASE:
        return None
    return (
        f"{_capital(found[4])} {found[3]} {_small(found[1])}{found[5]}"
        if found[3].endswith("ed")
        else None
    )


def _unfronted(text: str, chance: Random) -> str | None:
    """Move an initial phrase of place or time to the end."""
    del chance
    found = re.fullmatch(
        r"((?:In|On|At|During|After|Before|Since|When|If|While) [^,.]+?) ?, ([^.?]+?)( ?[.]?)", text
    )
    return None if found is None else f"{_capital(found[2])} {_small(found[1])}{found[3]}"


def _turned_clauses(text: str, chance: Random) -> str | None:
    """Swap two statements joined by "and"."""
    del chance
    found = re.fullmatch(
        r"([A-Z][^,.]+? (?:is|was|are|were|has|had) [^,.]+?),? and ([A-Z]?[^,.]+? (?:is|was|are|were|has|had) [^,.]+?)([.]?)",
        text,
    )
    if found is None or found[2].split()[0] in {"is", "was", "are", "were", "has", "had"}:
        return None
    if re.search(r"\b(he|she|it|they|his|her|their|its)\b", found[2]):
        return None
    return f"{_capital(found[2])}, and {_small(found[1])}{found[3]}"


def _owned(text: str, chance: Random) -> str | None:
    """Rewrite "the father of Anna" as "Anna's father", or back."""
    del chance
    if found := re.search(r"\b[Tt]he (\w+) of ([A-Z]\w+)\b", text):
        return f"{text[: found.start()]}{found[2]}'s {found[1]}{text[found.end() :]}"
    if found := re.search(r"\b([A-Z][a-z]+)'s ([a-z]+)(?= is| was|[.,]|$)", text):
        return _capital(f"{text[: found.start()]}the {found[2]} of {found[1]}{text[found.end() :]}")
    return None


def _filled(text: str, chance: Random) -> str | None:
    """Insert or remove a filler word."""
    if found := re.search(rf"\b({'|'.join(_FILLERS)}) ", text):
        return _capital(f"{text[: found.start()]}{text[found.end() :]}")
    if found := re.match(r"(?:I|He|She|They|We|The user|User) (?=[a-z]+ )", text):
        return f"{found[0]}{chance.choice(_FILLERS)} {text[found.end() :]}"
    return None


def _denied_all(text: str, chance: Random) -> str | None:
    if text.endswith("?"):
        return None
    form = chance.choice(
        ["It is not true that {}", "It is not the case that {}", "It is false that {}"]
    )
    return form.format(_small(text))


def _exchanged_ends(text: str, chance: Random) -> str | None:
    """Swap agent and patient, or origin and destination."""
    if found := re.search(r"\bfrom ([\w']+(?: [\w']+)?) to ([\w']+)(?=[ .,]|$)", text):
        return f"{text[: found.start()]}from {found[2]} to {found[1]}{text[found.end() :]}"
    found = _BETWEEN.search(text)
    if found and chance.random() < 0.3 and found[1][:1].isupper() == found[3][:1].isupper():
        return f"{text[: found.start()]}{found[3]} {found[2]} {found[1]}{text[found.end() :]}"
    found = re.fullmatch(
        r"((?:An?|The|Some|Two|Three|One|My|[A-Z]\w+)(?: \w+){0,2}?) ((?:is|are|was|were) \w+(?: (?:by|with|at|to|from|on|in|behind|under|over|than))?|\w+(?:s|ed)(?: (?:to|at|on|by|with|from|for))?) ((?:an?|the|some|two|three|his|her|my|another|[A-Z]\w+)(?: \w+){0,2})([.]?)",
        text,
    )
    if found is None:
        return None
    return f"{_capital(found[3])} {found[2]} {_small(found[1])}{found[4]}"


def _asked_else(text: str, chance: Random) -> str | None:
    """Replace the question word: why instead of how, where instead of when."""
    found = re.match(
        r"(How|Why|When|Where|Who|What)(?= (?:do|does|did|is|are|was|were|can|should|would|will)\b)",
        text,
    )
    if found is None or not text.rstrip().endswith("?"):
        return None
    other = chance.choice([word for word in ("How", "Why", "When", "Where") if word != found[1]])
    return f"{other}{text[found.end() :]}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _small(text: str) -> str:
    """Lower-case a sentence's first letter if its first word is a common function word."""
    first = text.split(" ", 1)[0]
    return f"{text[:1].lower()}{text[1:]}" if first.lower() in _SMALL else text
