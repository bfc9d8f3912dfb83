"""What code sees of skills: the folders as they are, and modules where names allow."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from moonpool.features.library.model.skills import read_skill, skill_source
from moonpool.wrappers.library_tree import render_packages

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.library.model.entries import LibraryEntry

HOSTILE = '""" \\\nraise SystemExit("ran") #'


def skill(name: str, files: dict[str, bytes] | None = None, *, description: str = "Fill forms.") -> LibraryEntry:
    head = f"---\nname: {name}\ndescription: {description}\n---\nText.\n".encode()
    return read_skill(skill_source({"SKILL.md": head, **(files or {})}, place=name))


def run(folder: Path, code: str, *skills: LibraryEntry) -> str:
    """What `code` prints where the tree of `skills` is importable."""
    files = {f"skills/{path}": content for one in skills for path, content in one.files.items()}
    for path, content in {**files, **render_packages(skills)}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.stderr == ""
    return done.stdout.strip()


def test_without_a_skill_there_is_nothing() -> None:
    assert render_packages([]) == {}


def test_scripts_are_imported_under_the_skill_s_name(tmp_path: Path) -> None:
    scripts = {"scripts/fill.py": b"from . import other\nx = other.y\n", "scripts/other.py": b"y = 7\n"}
    code = (
        "from skills.pdf_forms.scripts.fill import x\nimport skills\n"
        "print(x, skills.pdf_forms.scripts.fill.x, open(skills.pdf_forms.FOLDER + '/SKILL.md').read().count('Text'))"
    )
    assert run(tmp_path, code, skill("pdf-forms", scripts)) == "7 7 1"


def test_a_package_of_the_skill_s_own_does_not_get_in_the_way(tmp_path: Path) -> None:
    forms = skill("forms", {"__init__.py": b"raise SystemExit('ran')\n", "fill.py": b"x = 1\n"})
    code = "import skills.forms\nfrom skills.forms.fill import x\nprint(x, skills.forms.__doc__.splitlines()[0])"
    assert run(tmp_path, code, forms) == "1 Fill forms."


def test_names_that_python_reserves_get_one_it_takes(tmp_path: Path) -> None:
    skills = [skill("class", {"a.py": b"x = 1\n"}), skill("3d", {"a.py": b"x = 2\n"})]
    code = "import skills.class_.a, skills._3d.a as b\nprint(skills.class_.a.x, b.x, skills.__all__)"
    assert run(tmp_path, code, *skills) == "1 2 ['_3d', 'class_']"


def test_an_unknown_skill_is_said_to_be_none(tmp_path: Path) -> None:
    code = "import skills\ntry:\n    skills.pdf\nexcept AttributeError as error:\n    print(error)"
    assert run(tmp_path, code, skill("pdf-forms")) == "there is no skill 'pdf'; there are pdf_forms"


def test_a_description_never_becomes_code(tmp_path: Path) -> None:
    hostile = skill("forms", description="'" + HOSTILE.replace("\n", " ").replace("'", "''") + "'")
    assert '"""' in run(tmp_path, "import skills.forms\nprint(skills.forms.__doc__)", hostile)
