"""The page for people: what is in doubt is settled, what is kept and decided is explored."""
