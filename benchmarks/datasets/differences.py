"""Pairs of memories that differ in a single detail, which must never be merged.

The texts of a pair are equal except for a number, a date, a time, a duration, a version, an
identifier, an amount, a name or an owner. They are generated: sentences in the style of agents,
each filled with two different values, as digits and as words, with and without capitals.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

Pair = dict[str, str]

_NUMBERS = (
    [
        "The team has {} open tickets in the backlog.",
        "Anna has {} cats and a garden.",
        "There are {} servers behind the load balancer",
        "The user runs {} kilometres every morning",
        "Retries are limited to {} attempts per request.",
        "My brother owns {} bicycles.",
        "We need {} more reviewers for the release",
        "User said the flat has {} rooms.",
        "In the cellar there are {} bottles of wine.",
        "the cache keeps {} entries per tenant",
        "Each worker handles {} requests at once.",
        "User read {} books during the holidays",
        "the index is rebuilt after {} failed lookups",
        "{} people have signed up for the workshop.",
        "The build fails on {} of the platforms.",
    ],
    ["2", "three", "5", "seven", "12", "twenty-five", "40", "two hundred"],
)
_DATES = (
    [
        "The contract ends on {}.",
        "Ben's birthday is on {}",
        "The next release is planned for {}.",
        "User has a dentist appointment on {}",
        "On {} the database was migrated to the new cluster.",
        "we moved to the new office on {}",
        "The visa of my sister expires on {}.",
        "The certificate must be renewed by {}",
    ],
    [
        "March 14",
        "15 March",
        "the 3rd of June",
        "2024-06-04",
        "December 24, 2025",
        "2 May",
        "2023-11-30",
    ],
)
_WEEKDAYS = (
    [
        "The rubbish is collected on {}.",
        "User plays tennis every {}",
        "the report is due next {}",
        "We met the landlord last {}.",
        "The bakery is closed on {}",
    ],
    ["Monday", "Tuesday", "Thursday", "Saturday", "Sunday"],
)
_DAYS = (
    ["The parcel arrived {}.", "user called the bank {}", "The tests were rewritten {}"],
    ["yesterday", "today", "two days ago", "last week"],
)
_YEARS = (
    [
        "The company was founded in {}.",
        "I have lived in Lisbon since {}",
        "She finished her degree in {}.",
        "The bridge was built in {}, before the tunnel.",
    ],
    ["1987", "1998", "2007", "2015", "2019", "2021"],
)
_TIMES = (
    [
        "The stand-up starts at {}.",
        "User takes the medicine at {} every day",
        "The backup job runs at {}",
        "My train to Hamburg leaves at {}.",
        "At {} the cleaning crew arrives.",
        "the shop closes at {} on weekdays",
    ],
    ["9:30 am", "3pm", "15:45", "7 o'clock", "10 in the morning", "noon", "8:15"],
)
_DURATIONS = (
    [
        "The trial lasts {}.",
        "Tokens expire after {}",
        "The drive from home to work takes {}.",
        "User wants to stay in Japan for {}",
        "It takes {} to bake the bread.",
        "my parental leave lasts {}",
    ],
    ["two weeks", "10 days", "45 minutes", "an hour", "3 months", "half an hour", "six hours"],
)
_VERSIONS = (
    [
        "The service runs on Rust {}.",
        "The project is pinned to Python {}",
        "User upgraded the gateway to version {}.",
        "the parser broke in release {}",
        "Since {} the plugin needs a licence key.",
    ],
    ["1.78", "1.79", "2.3.1", "2.4.0", "3.11", "10.2"],
)
_IDENTIFIERS = (
    [
        "The outage is tracked in {}.",
        "User's order is {}",
        "The fix for the login bug is in {}",
        "Look at {} before the release.",
        "the deploy of {} was rolled back",
        "Notes of the meeting are kept in {}.",
    ],
    [
        "OPS-112",
        "OPS-121",
        "#4711",
        "a3f9c21",
        "b7d0e55",
        "PAY-9",
        "/srv/notes/july.md",
        "https://wiki.example.org/p/17",
        "6b1f0c1e-3a52-4d0c-9b0e-1f2a3c4d5e6f",
    ],
)
_PORTS = (
    [
        "The metrics endpoint listens on port {}.",
        "The tunnel forwards port {} to the laptop",
        "User opened {} in the firewall",
    ],
    ["8080", "9090", "5432", "443"],
)
_ADDRESSES = (
    [
        "Send questions about invoices to {}",
        "The account is registered to {}.",
        "user's second mailbox is {}",
    ],
    ["billing@example.org", "sales@example.org", "ana.k@example.net", "ana.m@example.net"],
)
_HOSTS = (
    ["The staging database is at {}", "ssh into the build host with {}", "{} is the printer."],
    ["10.0.0.5", "10.0.0.7", "192.168.1.20"],
)
_PLACEHOLDERS = (
    [
        "Greet the customer with {} in the first line.",
        "The template needs {} before it can be sent",
        "replace {} with the value from the form",
    ],
    ["{name}", "{city}", "<order_id>", "<user_id>"],
)
_AMOUNTS = (
    [
        "The monthly rent is {}.",
        "User has a budget of {} for the laptop",
        "The client still owes us {}.",
        "Hosting costs {} per month",
        "for the repair I paid {}",
        "Anna earns {} a month.",
        "a ticket for the concert is {}",
        "The insurance paid {} after the accident.",
    ],
    ["$1,200", "1500 dollars", "$1.8k", "900 euros", "€950", "£40", "two hundred dollars"],
)
_SHARES = (
    [
        "The test coverage is {}.",
        "{} of the users are on the free plan",
        "The discount for members is {}.",
        "the disk is {} full",
    ],
    ["15%", "20 percent", "45%", "eighty percent", "90%"],
)
_WEIGHTS = (
    ["The parcel weighs {}.", "User can lift {}", "We ordered {} of coffee beans."],
    ["5 kg", "12 kg", "800 g", "30 pounds", "two kilograms"],
)
_LENGTHS = (
    ["The table is {} long", "The next charger is {} away.", "The user runs {} every morning"],
    ["3 metres", "80 cm", "7 miles", "40 km", "five kilometres"],
)
_SIZES = (
    ["User's laptop has {} of memory.", "uploads are limited to {}"],
    ["16 GB", "32 GB", "500 MB", "2 terabytes"],
)
_ORDINALS = (
    [
        "Our office is on the {} floor.",
        "He finished the race in {} place",
        "This is my {} visit to Vienna.",
    ],
    ["second", "third", "5th", "tenth", "21st"],
)
_PEOPLE = (
    [
        "{} is responsible for the payment service.",
        "User's sister is called {}",
        "The review was done by {} last week.",
        "Yesterday {} adopted a dog from the shelter.",
        "The keys are with {}",
        "I had dinner with {} in Madrid.",
        "{} prefers tea in the afternoon",
        "Ask {} about the travel expenses.",
        "The user's best friend is {}.",
        "{}'s flat is above the bakery",
    ],
    ["Priya", "Tomasz", "Yuki", "Dmitri", "Ngozi", "Aurelio", "Siobhan"],
)
_PEOPLE_WRITTEN_SMALL = (
    [
        "{} maintains the search index",
        "the laptop belongs to {}",
        "i will meet {} after work",
        "my manager is {}",
    ],
    ["priya", "tomasz", "dmitri", "ngozi", "aurelio", "siobhan"],
)
_PROJECTS = (
    [
        "Project {} is written in Go.",
        "The deadline of project {} was moved.",
        "User works on Project {} with the platform team",
        "The design of {} was approved by the board",
    ],
    ["Atlas", "Borealis", "Kestrel", "Zephyr", "Quokka"],
)
_PLACES = (
    [
        "User lives in {}.",
        "My parents have a house in {}",
        "The conference takes place in {} this year.",
        "the warehouse in {} is closed on Sundays",
        "Anna moved from {} to be near the sea.",
    ],
    ["Paris", "Berlin", "Tokyo", "Oslo", "Madrid"],
)
_OWNERS = (
    [
        "{} car is parked in the basement.",
        "{} daughter is allergic to peanuts",
        "The password of {} account was changed.",
        "{} favourite colour is green",
        "User borrowed {} ladder for the weekend.",
        "{} bike was stolen last summer",
    ],
    ["my", "your", "Anna's", "Tomasz's", "Priya's"],
)
_HIS_AND_HERS = (
    ["The doctor changed {} medication.", "{} flight was cancelled", "We celebrated {} promotion."],
    ["his", "her"],
)

_KINDS: Sequence[tuple[str, str, tuple[Sequence[str], Sequence[str]]]] = (
    ("number", "contradicts", _NUMBERS),
    ("date", "contradicts", _DATES),
    ("date", "contradicts", _WEEKDAYS),
    ("date", "contradicts", _DAYS),
    ("date", "contradicts", _YEARS),
    ("time", "contradicts", _TIMES),
    ("duration", "contradicts", _DURATIONS),
    ("version", "contradicts", _VERSIONS),
    ("id", "distinct", _IDENTIFIERS),
    ("id", "distinct", _PORTS),
    ("id", "distinct", _ADDRESSES),
    ("id", "distinct", _HOSTS),
    ("id", "distinct", _PLACEHOLDERS),
    ("amount", "contradicts", _AMOUNTS),
    ("number", "contradicts", _SHARES),
    ("number", "contradicts", _WEIGHTS),
    ("number", "contradicts", _LENGTHS),
    ("number", "contradicts", _SIZES),
    ("number", "contradicts", _ORDINALS),
    ("name", "distinct", _PEOPLE),
    ("name", "distinct", _PEOPLE_WRITTEN_SMALL),
    ("name", "distinct", _PROJECTS),
    ("name", "distinct", _PLACES),
    ("owner", "distinct", _OWNERS),
    ("owner", "distinct", _HIS_AND_HERS),
)


def pairs() -> list[Pair]:
    """Return every pair, with the texts `a` and `b`, its `label` and the `kind` of its detail."""
    return [
        {"a": a, "b": b, "label": label, "kind": kind}
        for kind, label, (templates, values) in _KINDS
        for a, b in _filled(templates, values)
    ]


def _filled(templates: Sequence[str], values: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, template in enumerate(templates):
        for number, (value, other) in enumerate(combinations(values, 2)):
            # Alternate which value comes first.
            first, second = (value, other) if (place + number) % 2 else (other, value)
            yield _sentence(template, first), _sentence(template, second)


def _sentence(template: str, value: str) -> str:
    if template.startswith("{}") and template.endswith("."):
        value = value[:1].upper() + value[1:]
    return template.replace("{}", value)
