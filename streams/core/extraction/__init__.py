"""Extraction of events from turns: what of a turn is worth remembering."""
