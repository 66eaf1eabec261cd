from pathlib import Path
from ssl import SSLContext

def create_ssl_context(*, cafile: Path | str | None = None) -> SSLContext: ...
