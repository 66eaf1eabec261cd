"""What metadata says of the place that a memory is of.

Who takes it from a turn or a file, and who shows it, must use the same words.
"""

from typing import Final

LOCATION_NAME: Final = "location_name"
"""What the place is called."""
SCORE: Final = "score"
"""By how much the score changed, with its sign."""
