"""Scripts and material that build the lexicon and the judge, and their measurements."""
