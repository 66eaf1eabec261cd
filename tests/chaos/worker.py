"""`memsieve`, with the cheap embedder in the place of the default model.

`python -m tests.chaos.worker service deduplicator` is `memsieve service deduplicator`. It ends when
its standard input does: with its parent, however that ends.
"""

import os
import threading
from collections.abc import Callable

from streams.main import main
from streams.model.ports.models import Embedder
from streams.store.app import wiring
from streams.store.app.setting_groups import EmbedderSettings
from tests.chaos.embedder import WordEmbedder


def _embedder(_settings: EmbedderSettings, _report: Callable[[str], None]) -> Embedder:
    return WordEmbedder()


def _end_with_parent() -> None:
    os.read(0, 1)  # unbuffered: a lock that is held would be in the way of an orderly end
    os._exit(1)


if __name__ == "__main__":
    wiring.embedder = _embedder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main()
