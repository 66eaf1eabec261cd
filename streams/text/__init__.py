"""Texts as they are read: words, quantities, dictionaries."""
