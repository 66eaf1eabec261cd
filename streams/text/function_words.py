"""The closed classes of English: words that carry a sentence's form, not its content."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Mapping


def by_word(**words: str) -> Mapping[str, str]:
    """Return the kind of each word, from the words of each kind."""
    return {word: kind for kind, listed in words.items() for word in listed.split()}


ARTICLES = frozenset("a an the".split())
COORDINATORS = frozenset("and or nor plus as-well-as &".split())
SUBORDINATORS = frozenset(
    "but although though because since so while whereas however yet if unless when until whether "
    "which who that where why how".split()
)

FIRST_PERSON = frozenset("i me my mine myself we us our ours ourselves".split())
SECOND_PERSON = frozenset("you your yours yourself yourselves".split())
THIRD_PERSON = frozenset(
    "he him his himself she her hers herself it its itself they them their theirs themselves".split()
)
PRONOUNS = FIRST_PERSON | SECOND_PERSON | THIRD_PERSON
DEMONSTRATIVES = frozenset(
    "this that these those there here such same other another own one ones".split()
)
POSSESSIVES = by_word(i="my", we="our", you="your", he="his", she="her", it="its", they="their")

AUXILIARIES = by_word(
    be="am is are was were be been being", do="do does did", have="has have had having"
)
BE = frozenset(form for form, base in AUXILIARIES.items() if base == "be") | {"get", "gets", "got"}

MODALS = by_word(
    ability="can able",
    possible="could may might maybe perhaps possibly probably likely apparently supposedly allegedly",
    obligation="must should shall ought need needs",
    conditional="would",
    future="will",
)
MODAL_WITH_TO = by_word(
    obligation="have has had need needs needed obliged required supposed",
    wish="want wants wanted wish wishes hope hopes hoped plan plans planned planning intend intends",
    possible="allowed permitted",
    future="going gonna",
    former="used",
)
"""Verbs that give the mode of the infinitive after them."""

HEDGES = frozenset("probably likely apparently supposedly allegedly".split())
"""Adverbs that express doubt; the statement they qualify is still made."""

NEGATORS = frozenset(
    "not never no none nobody nothing nowhere neither nor without hardly scarcely barely rarely "
    "seldom unless".split()
)
NEGATIVE_VERBS = frozenset(
    "fail refuse decline stop quit cease avoid lack deny prevent neglect".split()
)
"""Implicative verbs: their complement is not so. A small class listed in grammars."""

NEGATIVE_ADJECTIVES = frozenset(
    "unable incapable impossible unlikely unwilling devoid forbidden prohibited".split()
)
NO_NEGATION_BEHIND = frozenset("only just merely doubt matter wonder".split())
"""After "not" or "no" these form an idiom that asserts."""

QUANTIFIERS = by_word(
    all="all every each everyone everybody everything",
    always="always",
    most="most mostly usually",
    often="often frequently",
    sometimes="sometimes occasionally",
    many="many much",
    few="few",
    only="only exclusively solely",
    almost="almost nearly",
    both="both",
    either="either",
    some="some several any someone somebody something",
)

QUESTION_WORDS = frozenset("who whom whose what which when where why how".split())

PREPOSITIONS = frozenset(
    "of in on at amongst by for from to into onto with about against between among through during before "
    "after above below under over off out up down near behind beside besides beyond across along "
    "around inside outside toward towards upon within per via as than since until till despite "
    "except".split()
)

PARTICLES = frozenset("on off in out up down here there over".split())
"""Adverbs that can be a predicate: "it is off", "she is out"."""

DEGREE = frozenset(
    "very too quite rather really so also even still again already then now just well more less "
    "least".split()
)

FUNCTION_WORDS = (
    ARTICLES
    | COORDINATORS
    | SUBORDINATORS
    | PRONOUNS
    | DEMONSTRATIVES
    | AUXILIARIES.keys()
    | MODALS.keys()
    | NEGATORS
    | QUANTIFIERS.keys()
    | QUESTION_WORDS
    | PREPOSITIONS
    | DEGREE
    | {"'s", "s", "ago", "please", "let", "there"}
) - {"need", "needs", "able", "likely"}
