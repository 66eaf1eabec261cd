"""The values of the frames' slots, drawn at random by slot type."""

from collections.abc import Callable
from random import Random

_GIVEN = [
    "Amara",
    "Bilal",
    "Chen",
    "Dana",
    "Elif",
    "Farid",
    "Greta",
    "Hiro",
    "Ines",
    "Jorge",
    "Kavya",
    "Liam",
    "Mei",
    "Nadia",
    "Oskar",
    "Priya",
    "Quentin",
    "Rosa",
    "Samir",
    "Tove",
    "Uma",
    "Viktor",
    "Wanda",
    "Ximena",
    "Yusuf",
    "Zoe",
    "Alice",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Felix",
    "Grace",
    "Henry",
    "Irene",
    "Jonas",
    "Karen",
    "Leo",
    "Maria",
    "Noah",
    "Olga",
    "Paul",
    "Ruth",
    "Sam",
    "Tina",
    "Tom",
    "Anna",
    "Peter",
    "Susan",
    "Mark",
]
_FAMILY = [
    "Okafor",
    "Haddad",
    "Wei",
    "Novak",
    "Kaya",
    "Rahman",
    "Lindqvist",
    "Tanaka",
    "Duarte",
    "Alvarez",
    "Iyer",
    "Murphy",
    "Zhang",
    "Petrova",
    "Berg",
    "Sharma",
    "Laurent",
    "Moretti",
    "Aziz",
    "Dahl",
    "Mehta",
    "Kowalski",
    "Brandt",
    "Castro",
    "Demir",
    "Weiss",
    "Baker",
    "Carter",
    "Evans",
    "Foster",
    "Hughes",
    "Keller",
    "Martin",
    "Nguyen",
    "Osborne",
    "Palmer",
    "Reyes",
    "Silva",
    "Turner",
    "Wallace",
]
_LISTS = {
    "company": "Acme, Globex, Northwind, Initech, Contoso, Umbra Labs, Brightwell, Corvid Systems, "
    "Halden Freight, Lumen Foods, Nordlicht, Orchid Bank, Pinecrest, Quantal, Redwood Motors, "
    "Solaris Energy, Tidewater, Vantage Air, Westbrook, Zephyr Telecom",
    "city": "Lisbon, Oslo, Nairobi, Denver, Kyoto, Lima, Prague, Dublin, Seattle, Hanoi, Krakow, "
    "Montreal, Valencia, Austin, Accra, Helsinki, Mumbai, Perth, Cairo, Boston, Geneva, Seoul, "
    "Istanbul, Santiago, Vienna",
    "country": "Norway, Kenya, Japan, Peru, Ireland, Vietnam, Poland, Canada, Ghana, Finland, India, "
    "Egypt, Chile, Austria, Turkey, Brazil, Spain, Mexico, Germany, France, Italy, China, Greece",
    "weekday": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "month": "January, February, March, April, May, June, July, August, September, October, "
    "November, December",
    "duration": "two weeks, three days, ten minutes, six months, an hour, 45 minutes, five years, "
    "90 days, four hours, a year and a half, 30 seconds, eight weeks",
    "colour": "red, blue, green, yellow, black, white, orange, purple, brown, grey, pink, silver",
    "size": "small, large, tiny, huge, medium-sized, big, enormous, compact",
    "material": "wood, steel, glass, leather, cotton, wool, plastic, copper, marble, paper, rubber",
    "food": "pasta, rice, lentils, bread, salmon, tofu, mushrooms, eggs, cheese, peanuts, shrimp, "
    "strawberries, spinach, chicken, beans, olives, pancakes, soup",
    "drink": "coffee, green tea, orange juice, milk, red wine, beer, lemonade, hot chocolate, water",
    "animal": "dog, cat, horse, rabbit, parrot, goat, hamster, turtle, cow, duck, pony, ferret",
    "sport": "tennis, football, basketball, hockey, golf, rugby, badminton, volleyball, cricket",
    "instrument": "violin, piano, guitar, cello, flute, drums, trumpet, harp, clarinet, banjo",
    "room": "kitchen, garage, attic, basement, bedroom, hallway, library, bathroom, study, cellar",
    "furniture": "table, sofa, desk, shelf, wardrobe, armchair, bench, dresser, bookcase, stool",
    "vehicle": "van, truck, motorcycle, bus, tractor, bicycle, scooter, taxi, ferry, train",
    "clothing": "jacket, scarf, hat, coat, sweater, shirt, dress, gloves, boots, raincoat",
    "tool": "hammer, drill, wrench, saw, screwdriver, shovel, ladder, axe, rope, lantern",
    "language": "Spanish, Portuguese, Japanese, Arabic, German, Swahili, Polish, Korean, Turkish",
    "proglang": "Python, Rust, Go, Java, Kotlin, TypeScript, Ruby, Elixir, Scala, Swift",
    "database": "Postgres, MySQL, Redis, SQLite, MongoDB, Cassandra, DynamoDB, ClickHouse",
    "job": "nurse, teacher, plumber, engineer, lawyer, chef, pilot, dentist, farmer, accountant, "
    "translator, librarian, electrician, architect, baker",
    "relative": "sister, brother, mother, father, cousin, aunt, uncle, grandmother, son, daughter",
    "hobby": "pottery, chess, hiking, birdwatching, knitting, photography, gardening, fencing, "
    "surfing, cycling, origami, astronomy",
    "season": "spring, summer, autumn, winter",
    "direction": "north, south, east, west",
    "planet": "Mercury, Venus, Mars, Jupiter, Saturn, Uranus, Neptune",
    "nationality": "French, German, Spanish, Italian, Japanese, Chinese, Indian, Brazilian, Canadian, "
    "Mexican, Egyptian, Norwegian, Swedish, Polish, Greek, Turkish, Irish, Russian, British, American",
    "ordinal": "first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth",
    "crop": "potato, onion, carrot, tomato, cucumber, pepper, cabbage, pumpkin, leek, apple, pear, "
    "banana, lemon, peach, mango, cherry",
    "whom": "man, woman, boy, girl",
    "unit": "second, minute, hour, day, week, month, year",
}
_ORDINARY = {name: values.split(", ") for name, values in _LISTS.items()}
NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_NUMBER_WORDS = [*NUMBERS[2:], "fifteen", "twenty"]


def _number(chance: Random) -> str:
    return chance.choice([str(chance.randint(2, 40)), chance.choice(_NUMBER_WORDS)])


def _time(chance: Random) -> str:
    hour = chance.randint(1, 12)
    half = chance.choice(["am", "pm"])
    return chance.choice([f"{hour} {half}", f"{hour}:{chance.choice(['15', '30', '45'])} {half}"])


_MADE: dict[str, Callable[[Random], str]] = {
    "person": lambda chance: chance.choice(_GIVEN),
    "person2": lambda chance: f"{chance.choice(_GIVEN)} {chance.choice(_FAMILY)}",
    "date": lambda chance: f"{chance.choice(_ORDINARY['month'])} {chance.randint(1, 28)}",
    "year": lambda chance: str(chance.randint(1965, 2025)),
    "time": _time,
    "number": _number,
    "big": lambda chance: str(chance.randint(100, 9_999)),
    "amount": lambda chance: f"${chance.choice([5, 12, 45, 80, 120, 250, 900, 1_500])}",
    "version": lambda chance: ".".join(str(chance.randint(0, 12)) for _ in range(3)),
    "port": lambda chance: str(chance.choice([3000, 5432, 6379, 8000, 8080, 8443, 9092, 9200])),
    "ticket": lambda chance: (
        f"{chance.choice(['ACME', 'OPS', 'PAY', 'WEB'])}-{chance.randint(10, 999)}"
    ),
    "percent": lambda chance: f"{chance.randint(2, 95)}%",
}


def draw(slots: dict[str, str], chance: Random) -> dict[str, str]:
    """Return a value for each slot by its type; slots of one type get different values."""
    drawn: dict[str, str] = {}
    for slot, of in slots.items():
        taken = {drawn[other] for other in drawn if slots[other] == of}
        value = _value(of, chance)
        while value in taken:
            value = _value(of, chance)
        drawn[slot] = value
    return drawn


def _value(of: str, chance: Random) -> str:
    return _MADE[of](chance) if of in _MADE else chance.choice(_ORDINARY[of])


def listed(of: str) -> list[str]:
    """Return all single words of an ordinary type, or the given names of "person"."""
    values = _GIVEN if of == "person" else _ORDINARY[of]
    return [value for value in values if " " not in value]
