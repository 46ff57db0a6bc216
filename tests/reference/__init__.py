"""The reference pages of ``docs/reference/``, written from the code by ``make reference``.

The pages are committed, so that GitHub shows them as they are. ``make check`` fails if they differ
from the code. mkdocstrings and mkdocs-click write only while a site is built, and neither knows the
settings file, the OpenAPI document, the errors or the metrics.
"""
