"""Imported by the process that commands are forked from: loads once what takes long to load."""

from streams.judges.language import foreign_language

foreign_language("")
