"""One store held open for a program: decided on, searched, changed."""
