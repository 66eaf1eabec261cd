"""Another program's store, freed of what it says twice."""
