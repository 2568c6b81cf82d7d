"""Hooks of the site (``mkdocs.yml``): pages that are made when it is built.

These are the front page, CONTRIBUTING.md and CHANGELOG.md from the project's root, the command line's reference, which
``nox -s site`` has written before, the sessions of noxfile.py, and a page of the Python API for each folder.
"""

import ast
import re
from pathlib import Path
from typing import Any

__all__ = ["api_page", "folders", "on_config", "on_files", "on_page_content", "relocated", "sessions_page"]

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "types" / "adagp"
"""The package as links to its folders, since they aren't where Python's import system has them."""
COMMANDS = ROOT / "build" / "commands.md"
COPIED = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site by the file of the project's root that each is made from."""
SESSIONS_HEAD = """# Sessions

`./adagp test` runs the tests that take minutes. Everything else is a session of its own:
`.venv/bin/nox -s NAME -- OPTIONS`, after `./adagp test` has installed nox. `-- --help` shows a session's options. Long
sessions continue where they were stopped. A bench writes `results/NAME.json`: each figure with the command, commit,
seed and versions of tools. `nox -s docs` makes the documents of them.

| session | content |
|---|---|"""
_MEMBERS = re.compile(r"(<summary>Members</summary>\s*)<p>(.*?)</p>", re.DOTALL)
_ROLE = re.compile(r":[a-z]+:<code>~?(?:!|\.+)?(.*?)</code>")


def folders() -> dict[str, list[str]]:
    """Modules of the package by its folders, as dotted names."""
    found: dict[str, list[str]] = {}
    for path in sorted(TREE.glob("*/**/*.py")) + sorted(TREE.glob("*/*.py")):
        module = ".".join(path.relative_to(TREE.parent).with_suffix("").parts)
        if path.name != "__main__.py":
            found.setdefault(module.rpartition(".")[0], []).append(module.removesuffix(".__init__"))
    return {folder: sorted(set(modules)) for folder, modules in sorted(found.items())}


def api_page(folder: str, modules: list[str]) -> str:
    """A page with the documentation of a folder's modules, taken from their docstrings."""
    return "\n\n".join([f"# `{folder}`", *(f"::: {module}" for module in modules)]) + "\n"


def sessions_page() -> str:
    """A page with the sessions of noxfile.py and the first lines of their docstrings."""
    functions = [
        node for node in ast.parse((ROOT / "noxfile.py").read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    rows = [
        f"| `{node.name}` | {(ast.get_docstring(node) or '').partition(chr(10) * 2)[0].replace(chr(10), ' ')} |"
        for node in functions if node.decorator_list
    ]  # fmt: skip
    return "\n".join((SESSIONS_HEAD, *rows)) + "\n"


def relocated(text: str) -> str:
    """A file of the project's root with its links as the site has them."""
    return (
        re.sub(r"(\]\(|src=\"|srcset=\")docs/", r"\1", text)
        .replace("(CONTRIBUTING.md", "(contributing.md")
        .replace("(CHANGELOG.md", "(changelog.md")
    )


def on_config(config: Any) -> Any:
    """Add decisions and the pages of the Python API to the navigation."""
    decisions = [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    api = [{folder.removeprefix("adagp."): f"api/{folder}.md"} for folder in folders()]
    config["nav"] += [{"Decisions": decisions}, {"Python API": api}]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    from mkdocs.structure.files import File  # here, since only the site's own environment has it

    made = {name: relocated((ROOT / source).read_text()) for name, source in COPIED.items()}
    made["sessions.md"] = sessions_page()
    made["commands.md"] = COMMANDS.read_text()
    made |= {f"api/{folder}.md": api_page(folder, modules) for folder, modules in folders().items()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Show docstrings' roles, ``:func:`name```, as names alone, and ports as a list."""
    return _MEMBERS.sub(lambda found: found[1] + _port_list(found[2]), _ROLE.sub(r"<code>\1</code>", html))


def _port_list(text: str) -> str:
    """Section Members of a hardware component as a list: lines with names and type, below each its indented text."""
    found = []
    for line in text.split("\n"):
        if line.startswith("    "):
            found.append(f"<dd>{line.strip()}</dd>")
        else:
            names, colon, kind = line.partition(" : ")
            found.append(f"<dt><code>{names}</code>{colon}{kind}</dt>")
    return "<dl>" + "".join(found).replace("</dd><dd>", " ") + "</dl>"
