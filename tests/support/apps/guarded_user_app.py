"""The app user_app with Perdure's guard as its transport.

The import of Perdure's app registers the transport name that the URL of a Unix socket needs.
"""

from __future__ import annotations

import perdure.worker.app  # noqa: F401  registers that name
from tests.support.apps.user_app import app

__all__ = ["app"]
