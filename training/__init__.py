"""How the lexicon and the judge are made: scripts, their material, and what they measured."""
