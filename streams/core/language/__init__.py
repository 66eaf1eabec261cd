"""What words mean to each other, and what a text says that must not be lost."""
