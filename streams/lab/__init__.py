"""Policies measured, fitted and compared; stores analysed."""
