"""Settings, models, topics, schemas and graphs looked after."""
