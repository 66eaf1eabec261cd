"""The closed classes of English: words that carry a sentence's form, not its content."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Mapping

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
DEMONSTRATIVES = frozenset(
    "this that these those there here such same other another own one ones".split()
)
POSSESSIVES: Mapping[str, str] = {
    "my": "i",
    "our": "we",
    "your": "you",
    "his": "he",
    "her": "she",
    "its": "it",
    "their": "they",
}

AUXILIARIES: Mapping[str, str] = {
    "am": "be",
    "is": "be",
    "are": "be",
    "was": "be",
    "were": "be",
    "be": "be",
    "been": "be",
    "being": "be",
    "do": "do",
    "does": "do",
    "did": "do",
    "has": "have",
    "have": "have",
    "had": "have",
    "having": "have",
}
BE = frozenset(form for form, base in AUXILIARIES.items() if base == "be") | {"get", "gets", "got"}

MODALS: Mapping[str, str] = {
    "can": "ability",
    "able": "ability",
    "could": "possible",
    "may": "possible",
    "might": "possible",
    "maybe": "possible",
    "perhaps": "possible",
    "possibly": "possible",
    "probably": "possible",
    "likely": "possible",
    "apparently": "possible",
    "supposedly": "possible",
    "allegedly": "possible",
    "must": "obligation",
    "should": "obligation",
    "shall": "obligation",
    "ought": "obligation",
    "need": "obligation",
    "needs": "obligation",
    "would": "conditional",
    "will": "future",
}
MODAL_WITH_TO: Mapping[str, str] = {
    "have": "obligation",
    "has": "obligation",
    "had": "obligation",
    "need": "obligation",
    "needs": "obligation",
    "needed": "obligation",
    "want": "wish",
    "wants": "wish",
    "wanted": "wish",
    "wish": "wish",
    "wishes": "wish",
    "hope": "wish",
    "hopes": "wish",
    "hoped": "wish",
    "plan": "wish",
    "plans": "wish",
    "planned": "wish",
    "planning": "wish",
    "intend": "wish",
    "intends": "wish",
    "obliged": "obligation",
    "required": "obligation",
    "supposed": "obligation",
    "allowed": "possible",
    "permitted": "possible",
    "going": "future",
    "gonna": "future",
    "used": "former",
}
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

QUANTIFIERS: Mapping[str, str] = {
    "all": "all",
    "every": "all",
    "each": "all",
    "everyone": "all",
    "everybody": "all",
    "everything": "all",
    "always": "always",
    "most": "most",
    "mostly": "most",
    "usually": "most",
    "often": "often",
    "frequently": "often",
    "sometimes": "sometimes",
    "occasionally": "sometimes",
    "many": "many",
    "much": "many",
    "few": "few",
    "only": "only",
    "exclusively": "only",
    "solely": "only",
    "almost": "almost",
    "nearly": "almost",
    "both": "both",
    "either": "either",
    "some": "some",
    "several": "some",
    "any": "some",
    "someone": "some",
    "somebody": "some",
    "something": "some",
}

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
    | FIRST_PERSON
    | SECOND_PERSON
    | THIRD_PERSON
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
