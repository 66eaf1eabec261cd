from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pyarrow import RecordBatch, Table

class FileMetaData:
    num_rows: int

class ParquetFile:
    metadata: FileMetaData
    def __init__(self, source: BinaryIO) -> None: ...
    def iter_batches(self, batch_size: int = ...) -> Iterator[RecordBatch]: ...

def write_table(table: Table, where: Path | BinaryIO) -> None: ...
