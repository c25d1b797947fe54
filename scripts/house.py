"""Hold the tree against the house rules that no public linter knows.

Files have at most 400 lines and functions at most 40; every `*_plan.py` stands in the purity contract; each
suppression carries its reason on its line. Counts of suppressions are printed, so that a growing one is seen.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILE = 400
MAX_FUNCTION = 40
PURITY = "purity"
SUPPRESSIONS = {
    "noqa": re.compile(r"#\s*noqa\b(?::\s*[A-Z0-9, ]+)?(?P<reason>.*)"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore\b(?:\[[^\]]*\])?(?P<reason>.*)"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file of ours: its path from the top, and its text."""

    path: Path
    text: str

    @property
    def lines(self) -> list[str]:
        """The file's lines."""
        return self.text.splitlines()


def too_long_file(source: Source) -> Iterator[str]:
    """Name the file when it has more lines than a reader holds."""
    if len(source.lines) > MAX_FILE:
        yield f"{source.path}: {len(source.lines)} lines, at most {MAX_FILE}"


def long_functions(source: Source) -> Iterator[str]:
    """Name each function that has more lines than one verb needs."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                yield f"{source.path}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION}"


def lazy_imports(tree: ast.AST) -> Iterator[int]:
    """Return the lines of imports inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    yield inner.lineno


def suppressions(source: Source) -> Iterator[tuple[str, int, str]]:
    """Return (kind, line, reason) of each suppression; an empty reason is a fault."""
    for number, line in enumerate(source.lines, 1):
        for kind, pattern in SUPPRESSIONS.items():
            if found := pattern.search(line):
                yield kind, number, found["reason"].strip(" #-:—")
    for number in sorted(set(lazy_imports(ast.parse(source.text)))):
        _, _, reason = source.lines[number - 1].partition("#")
        yield "lazy import", number, reason.strip()


def contract_suppressions(config: str) -> Iterator[tuple[int, str]]:
    """Return (line, reason) of each exemption from an import contract in pyproject.toml."""
    inside = False
    for number, line in enumerate(config.splitlines(), 1):
        if line.startswith("ignore_imports"):
            inside = True
        elif inside and "->" in line:
            yield number, line.partition("#")[2].strip()
        elif inside and line.startswith("]"):
            inside = False


def unlisted_plans(paths: list[Path], config: str) -> Iterator[str]:
    """Name each planning module that the purity contract does not hold."""
    contracts = tomllib.loads(config)["tool"]["importlinter"]["contracts"]
    listed = {
        module for contract in contracts if contract["id"] == PURITY for module in contract["source_modules"]
    }
    for path in paths:
        module = ".".join(path.with_suffix("").parts)
        if path.stem.endswith("_plan") and path.parts[0] != "tests" and module not in listed:
            yield f"{path}: {module} is missing in the import contract `{PURITY}` of pyproject.toml"


def our_files() -> list[Path]:
    """Return the Python files that git knows or would take, generated ones left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return sorted(Path(name) for name in listed if "_pb" not in Path(name).parts and Path(name).exists())


def main() -> int:
    """Print the faults and the counts; 1 when there is a fault."""
    paths = our_files()
    config = Path("pyproject.toml").read_text()
    faults = list(unlisted_plans(paths, config))
    counts: Counter[str] = Counter()
    for source in (Source(path, path.read_text()) for path in paths):
        faults += [*too_long_file(source), *long_functions(source)]
        for kind, number, reason in suppressions(source):
            counts[kind] += 1
            if not reason:
                faults.append(f"{source.path}:{number}: {kind} without its reason on the line")
    for number, reason in contract_suppressions(config):
        counts["ignore_imports"] += 1
        if not reason:
            faults.append(f"pyproject.toml:{number}: ignore_imports without its reason on the line")
    for fault in faults:
        print(fault)
    kinds = (*SUPPRESSIONS, "lazy import", "ignore_imports")
    print(
        f"{len(paths)} files; suppressions, each with its reason: "
        + ", ".join(f"{k} {counts[k]}" for k in kinds)
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
