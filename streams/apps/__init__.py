"""Composition: settings, wiring, and one builder per process."""
