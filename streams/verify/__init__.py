"""Audits a log and its copies."""
