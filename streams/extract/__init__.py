"""Events taken from the turns of an agent."""
