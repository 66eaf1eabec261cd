"""The log: in SQLite, in memory and in Kafka, and the loops that read it."""
