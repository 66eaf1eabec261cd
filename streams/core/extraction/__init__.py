"""From turns to events: what of a turn is worth remembering."""
