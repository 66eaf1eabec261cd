"""The embedders: what turns texts into vectors, and how their models reach this machine."""

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
