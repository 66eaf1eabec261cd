"""The adapters: one module or folder per port. Adapters never import each other."""
