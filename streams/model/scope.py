"""Scopes and the partitions they belong to."""

from functools import lru_cache

from schemas.base import ScopeName

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_REMEMBERED = 16_384
"""How many scopes' partitions are cached: computing one takes as long as parsing a short event."""


def tenant(scope: ScopeName) -> str:
    """Return the first segment of a scope: its owner."""
    return scope.partition("/")[0]


def lies_in(scope: str, above: str) -> bool:
    """Tell whether a scope is another one, or lies below it."""
    return scope == above or scope.startswith(f"{above}/")


@lru_cache(_REMEMBERED)
def partition_of(scope: ScopeName, partitions: int) -> int:
    """Return the partition of a scope, as Kafka's Java client chooses it for the same key bytes.

    Murmur2 over UTF-8, its sign bit cleared, modulo the number of partitions.
    """
    return (_murmur2(scope.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 with the seed of org.apache.kafka.common.utils.Utils."""
    value = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little")
        block = (block * _MULTIPLIER) & _MASK
        block ^= block >> 24
        block = (block * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ block
    if rest := data[whole:]:
        value ^= int.from_bytes(rest, "little")
        value = (value * _MULTIPLIER) & _MASK
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)
