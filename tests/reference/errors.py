"""The page of errors: for each class the problem over HTTP, its status and the exit code."""

from __future__ import annotations

from collections.abc import Iterator

import perdure
from perdure.worker import errors as worker_errors
from perdure.worker.errors import http_class
from perdure.worker.web import problems
from tests.reference.docstrings import summary_of
from tests.reference.markdown import page, paragraph, table
from tests.reference.python_api import class_docstring

#: Exit codes with their meaning, as the contract of the command line has them.
EXIT_CODES = (
    (0, "done"),
    (1, "internal error, or damaged data"),
    (2, "wrong usage, input or settings"),
    (3, "no such run, flow, artifact or token"),
    (4, "`watch`, `wait`, `submit --watch`: the run ended errored, or unfinished"),
    (5, "`watch`, `wait`, `submit --watch`: the run was stopped"),
    (6, "`watch`, `wait`, `submit --watch`: the run waits for a person"),
    (7, "no server"),
    (8, "not possible in this state, or not allowed to this user"),
    (9, "`wait --timeout`: the run has not ended yet and continues"),
    (130, "interrupted by you; the run continues"),
)


def pages() -> dict[str, str]:
    """Return the page by its path in ``docs/reference/``."""
    rows = [
        (
            f"`{cls.__name__}`",
            f"`{cls.code}`",
            _over_http(cls),
            f"{cls.exit_code}",
            summary_of(class_docstring(cls)),
        )
        for cls in errors()
    ]
    requests = [
        (f"{status}", f"`{problem}`", title) for status, (problem, title) in request_problems()
    ]
    introduction = paragraph(
        "Every error of Perdure is a `PerdureError` in Python, a problem (RFC 9457) over HTTP and"
        " an exit code of the command line. Its class has them as `code`, `http_status` and"
        " `exit_code`. A problem's `type` is `urn:perdure:` and the code."
    )
    return {
        "errors.md": page(
            "Errors",
            introduction,
            table(("Error", "Code", "HTTP", "Exit code", "When"), rows),
            "An error without a status is not raised by a request. Flows raise it inside a worker.",
            "## Problems of requests\n\nThese have no class in Python: the request was refused"
            " before it was executed.",
            table(("Status", "Problem", "Title"), requests),
            "## Exit codes\n\n"
            + table(("Code", "Meaning"), ((f"{code}", text) for code, text in EXIT_CODES)),
        )
    }


def errors() -> Iterator[type[perdure.PerdureError]]:
    """Yield every public error, in the order of their status over HTTP and their name."""
    classes = {
        value
        for module, names in ((perdure, perdure.__all__), (worker_errors, worker_errors.__all__))
        for value in (getattr(module, name) for name in names)
        if isinstance(value, type) and issubclass(value, perdure.PerdureError)
    }
    yield from sorted(classes, key=lambda cls: (not _over_http(cls), cls.http_status, cls.__name__))


def request_problems() -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield status, code and title of the problems that no error class stands for."""
    yield from sorted(problems.REQUEST_PROBLEMS.items())


def _over_http(cls: type[perdure.PerdureError]) -> str:
    """Return an error's status over HTTP, with the code that it has there if that is another."""
    reported = http_class(cls)
    if reported is perdure.PerdureError:
        return ""
    return f"{reported.http_status}" + ("" if reported is cls else f" as `{reported.code}`")
