"""The check of a Python module with flows. It finds all faults of the flows, with their lines.

An import runs a module as a whole, and the first fault ends the import. The check runs the module's
statements one by one, and goes on after a fault in a definition.
"""

from __future__ import annotations
import __future__

import ast
import difflib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

from pydantic.errors import PydanticUserError

from perdure.flows.commands.controller import InvalidController
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.loading import started_flows as starts
from perdure.flows.loading.errors import FileFault, shown, shown_path
from perdure.flows.loading.yaml_flow import FlowStart
from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import SHAPES, Flow

#: Methods of ``Steps`` and of ``RoundContext`` whose first argument names a flow.
STARTERS = ("child", "map")
#: Names by which functions call ``Steps`` and ``RoundContext``.
RUNS = ("steps", "context")
#: Statements that only define something. After a fault in one, the others can still be run.
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class CheckedModule:
    """A checked module, and its faults.

    Attributes:
        file: the module's file, for people.
        flows: the flows that the module has registered and that can be made.
        faults: all faults of the module, in the order of lines.
    """

    file: str
    flows: list[Flow] = field(default_factory=list)
    faults: list[FileFault] = field(default_factory=list)
    _tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    #: The lines at which flows were registered, by name.
    _lines: dict[str, int] = field(default_factory=dict)

    def check_flows(self) -> None:
        """Make each registered flow, and check the names of the flows that it starts.

        ``flows`` gets the flows that can be made, and ``faults`` the faults of the others. All
        other flows of this process must have been loaded before, because started flows are looked
        up.
        """
        for name, line in self._lines.items():
            try:
                flow = registry.make(name)
                if flow.Inputs is not None:
                    flow.Inputs.model_json_schema()
            except PydanticUserError as error:
                self._add(line, f"flow {name!r}: its inputs have no JSON schema: {error.message}")
            except Exception as error:
                told = str(error) if isinstance(error, InvalidFlow) else _told(error)
                self._add(line, told)
            else:
                self.flows.append(flow)
        lines = set()
        for flow in self.flows:
            line = self._lines[flow.name]
            own = [
                FlowStart(name, self.file, self._line_of(name, line), "")
                for name in starts.started_by(flow)
            ]
            self.faults += starts.faults_of(flow.name, own)
            lines |= {start.line for start in own}
        named = [start for start in self._named_starts() if start.line not in lines]
        self.faults += starts.faults_of("", named)
        self.faults = sorted(dict.fromkeys(self.faults), key=lambda fault: fault.line)

    def _add(self, line: int, message: str, key: str = "") -> None:
        self.faults.append(FileFault(self.file, line, key, message))

    def _line_of(self, name: str, begin: int) -> int:
        """Return a line with the text literal ``name``.

        The first such line after ``begin`` is preferred. If the module has none, the result is
        ``begin``.
        """
        texts = (node for node in ast.walk(self._tree) if isinstance(node, ast.Constant))
        lines = [node.lineno for node in texts if node.value == name]
        behind = [line for line in lines if line > begin]
        return min(behind or lines, default=begin)

    def _named_starts(self) -> Iterator[FlowStart]:
        """Yield the flows that the module's code starts by a literal name.

        These are calls like ``steps.child("NAME")`` and ``Child("NAME")``.
        """
        runs = {*RUNS, *(name for node in ast.walk(self._tree) for name in _steps_of(node))}
        for node in ast.walk(self._tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=called), attr=method),
                    args=[ast.Constant(value=str(name)), *_],
                ) if called in runs and method in STARTERS:
                    yield FlowStart(name, self.file, node.lineno, "")
                case ast.Call(func=ast.Name(id="Child"), args=[ast.Constant(value=str(name)), *_]):
                    yield FlowStart(name, self.file, node.lineno, "")

    def run(self, spec: ModuleSpec, source: bytes) -> None:
        """Run a module's statements. Record their faults, and the flows that they register.

        A NameError that only follows from an earlier fault is not recorded. The run ends early at a
        syntax error, any other NameError, or another error in a statement that is not a definition.
        It goes on after a fault of a flow.
        """
        try:
            self._tree = ast.parse(source, self.file)
        except SyntaxError as error:
            return self._add(error.lineno or 1, f"SyntaxError: {error.msg}")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        lost: set[str] = set()
        for statement in self._tree.body:
            before = registry.names()
            try:
                exec(self._compiled(statement), vars(module))  # noqa: S102  # as an import does
            except NameError as error:
                if error.name not in lost:
                    return self._add(_line(error, module, statement), _told(error))
                lost |= _bound(statement)  # It only follows from another fault.
            except InvalidController as error:
                lost |= _bound(statement)
                for place, message in error.faults:
                    self._add(_line(error, module, statement), message, shown(place))
            except InvalidFlow as error:
                lost |= _bound(statement)
                self._add(_line(error, module, statement), str(error))
            except Exception as error:
                self._add(_line(error, module, statement), _told(error))
                if not isinstance(statement, DEFINITIONS):
                    return None
                lost |= _bound(statement)
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                new = registry.names() - before
                self._lines |= dict.fromkeys(sorted(new), _first_line(statement))
        return None

    def _compiled(self, statement: ast.stmt) -> CodeType:
        postponed = any(
            isinstance(each, ast.ImportFrom)
            and each.module == "__future__"
            and any(name.name == "annotations" for name in each.names)
            for each in self._tree.body
        )
        flags = __future__.annotations.compiler_flag if postponed else 0
        body = ast.Module([statement], [])
        code: CodeType = compile(body, self.file, "exec", flags, dont_inherit=True)
        return code


def is_module(target: str) -> bool:
    """Return whether the target of a check is a Python module and not a file in YAML."""
    is_name = all(part.isidentifier() for part in target.split("."))
    is_file = target.endswith((".yaml", ".yml")) or Path(target).is_file()
    return target.endswith(".py") or (is_name and not is_file)


def run_module(target: str) -> CheckedModule:
    """Run a module for a check. ``check_flows`` of the result completes the check.

    Args:
        target: the module's file (``.py``), or its dotted name. If there is no such module, the
            result has this as a fault.
    """
    path = Path(target)
    name = ".".join(path.with_suffix("").parts) if target.endswith(".py") else target
    try:
        if target.endswith(".py") and not path.is_file():
            raise InvalidFlow(f"there is no file {target} in the working directory ({Path.cwd()})")
        spec = _spec(name, path if target.endswith(".py") else None)
        assert spec is not None and spec.origin is not None
        source = Path(spec.origin).read_bytes()
    except InvalidFlow as error:
        return CheckedModule(target, faults=[FileFault(target, 1, "", str(error))])
    checked = CheckedModule(shown_path(Path(spec.origin)))
    checked.run(spec, source)
    return checked


def _spec(name: str, path: Path | None) -> ModuleSpec | None:
    """Return the spec of a module. A file gets the name under which a worker imports it.

    Args:
        name: the dotted name of the module.
        path: the module's file. None if only the name is known.

    Raises:
        InvalidFlow: there is no such module, or a package around it cannot be imported.
        ModuleNotFoundError: there is no module of this name, and no ``path``.
    """
    parent = name.rpartition(".")[0]
    if path is None or all(part.isidentifier() for part in name.split(".")):
        try:
            if parent:
                registry.load_modules([parent])
            found = importlib.util.find_spec(name)
        except (InvalidFlow, ModuleNotFoundError):
            if path is None:
                raise
            found = None
        is_it = found is not None and found.origin is not None
        if is_it and (path is None or Path(str(found.origin)).resolve() == path.resolve()):  # type: ignore[union-attr]
            return found
    if path is None:
        registry.load_modules([name])  # tells why it cannot be imported
        raise InvalidFlow(f"{name!r} is no module with a file")
    sys.path.insert(0, str(path.resolve().parent))
    return importlib.util.spec_from_file_location(path.stem, path.resolve())


def _steps_of(node: ast.AST) -> list[str]:
    """Return the name of a workflow function's first parameter, in a list.

    The list is empty if the node is not a function with the decorator ``workflow``, or has no
    parameter.
    """
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.args.args:
        return []
    called = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    names = (getattr(each, "id", getattr(each, "attr", "")) for each in called)
    return [node.args.args[0].arg] if "workflow" in names else []


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(node.lineno for node in decorators)])


def _line(error: Exception, module: ModuleType, statement: ast.stmt) -> int:
    """Return the module's line that raised an error.

    If the traceback has no line of the module, return the first line of the statement.
    """
    frames = traceback.extract_tb(error.__traceback__)
    file = shown_path(Path(str(module.__file__)))
    own = [frame.lineno for frame in frames if frame.filename == file]
    return own[-1] if own and own[-1] is not None else _first_line(statement)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def likely_mistakes(flow: Flow) -> list[str]:
    """Return a warning for each class attribute that looks like a misspelt setting.

    Methods do not count. The list is empty if no attribute looks misspelt.
    """
    bases = [each for each in type(flow).__mro__ if each.__module__ in SHAPES]
    known = {name for base in bases for name in vars(base) if not name.startswith("_")}
    told = []
    for owner in type(flow).__mro__:
        if owner in bases or owner is object:
            continue
        for name, value in vars(owner).items():
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            if near and name not in known and not callable(value):
                told.append(
                    f"{owner.__name__}.{name} is no setting of a flow; did you mean {near[0]!r}?"
                )
    return told
