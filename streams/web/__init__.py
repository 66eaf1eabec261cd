"""The web page, on which people answer reviews, and explore memories and decisions."""
