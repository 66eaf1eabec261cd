"""Requests to an OpenAI-compatible endpoint, for embedders and judges."""
