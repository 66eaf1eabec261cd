"""Scripts and material that build the lexicon, the judge and the default model's graph, and their measurements."""
