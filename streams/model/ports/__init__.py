"""The outside world as the flow sees it, and what its failures mean.

Each Protocol has one contract suite under tests/contract that every implementation passes.
"""
