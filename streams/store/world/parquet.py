"""Reads a Parquet file as JSON Lines, so that its rows are handled like any others."""

import io
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet
from pydantic_core import to_json

from streams.model.ports.failures import Fatal

_BATCH_ROWS = 1_000


class JsonLines(io.RawIOBase):
    """The rows of a Parquet file, an object to a line; missing values and NaN are null."""

    def __init__(self, file: BinaryIO) -> None:
        """Read what the file says of itself. Raises Fatal where that is damaged."""
        try:
            self._file = parquet.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from error
        self._rows = self._file.metadata.num_rows
        self._read = 0
        self._lines = self._written()
        self._rest = b""

    @property
    def share(self) -> float:
        """How much of the rows was read, from 0 to 1."""
        return self._read / self._rows if self._rows else 1.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - what io gives
        while not self._rest and (line := next(self._lines, None)) is not None:
            self._rest = line
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _written(self) -> Iterator[bytes]:
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS):
                for row in _in_microseconds(batch).to_pylist():
                    self._read += 1
                    yield to_json(row, inf_nan_mode="null", bytes_mode="base64") + b"\n"
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise _damaged(error) from error


def _in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without nanoseconds, which no time of Python has."""
    fields = [
        field.with_type(pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type)
        else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields), safe=False)


def _damaged(error: Exception) -> Fatal:
    said = " ".join(str(error).split())
    return Fatal(f"it is a Parquet file that is damaged: {said}")
