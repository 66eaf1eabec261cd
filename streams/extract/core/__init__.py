"""Its rules: nothing but their arguments."""
