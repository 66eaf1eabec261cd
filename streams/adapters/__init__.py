"""The world: one module or folder per port. Adapters never import each other."""
