"""Folders that the application names: the kernel's own, imports, pictures."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import moonpool
from moonpool.ipybox import CodeExecutionError, CodeExecutor, generate_mcp_sources
from moonpool.ipybox.kernel_mgr.client import KernelClient
from moonpool.ipybox.kernel_mgr.server import KernelGateway
from moonpool.ipybox.registered_servers import register, registered

pytestmark = pytest.mark.anyio

PICTURE = """
import base64
display(base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="))
"""


@pytest.mark.req("I-036", "I-045", "I-073", "X-04", "X-25")
async def test_code_is_in_the_directory_of_the_process(project: Path) -> None:
    (project / "own.py").write_text("x = 'imported'", encoding="utf-8")
    (project / ".env").write_text("KEY=1", encoding="utf-8")
    async with CodeExecutor() as executor:
        said = await executor.execute(
            "import os, own\nopen('out.txt', 'w').write(own.x)\nprint(os.getcwd())\n"
            "try:\n    open('.env')\nexcept PermissionError as error:\n    print(error.strerror)"
        )
        assert said.text == f"{project}\nPermission denied"
        shown = await executor.execute(PICTURE)
        assert shown.images[0].parent == project / "images"
    assert (project / "out.txt").read_text(encoding="utf-8") == "imported"
    assert sorted(path.name for path in project.iterdir()) == [".env", "images", "out.txt", "own.py"]


async def test_imports_are_read_only_and_pictures_go_where_they_should(project: Path) -> None:
    work, lib, images = project / "work", project / "lib", project / "pictures"
    for folder in (work, lib):
        folder.mkdir()
    (lib / "helping.py").write_text("x = 1", encoding="utf-8")
    env = {"PYTHONPATH": f"{lib}{os.pathsep}{project / 'missing'}"}
    async with CodeExecutor(working_dir=work, images_dir=images, kernel_env=env) as executor:
        said = await executor.execute(
            f"import os, helping\nprint(helping.x, os.listdir({str(project)!r}))\n"
            f"try:\n    open({str(lib / 'new')!r}, 'w')\nexcept OSError as error:\n    print(error.strerror)"
        )
        assert said.text is not None
        assert said.text.startswith("1 [")
        assert said.text.endswith("Read-only file system")
        left = await executor.execute("os.mkdir('below'); os.chdir('below'); print('printed')")
        assert left.text == f"printed\n[ipybox] cwd reset to {work}"
        with pytest.raises(CodeExecutionError, match="ZeroDivisionError"):
            await executor.execute("os.chdir('/tmp'); 1/0")
        assert (await executor.execute("print(os.getcwd())")).text == str(work)
        await executor.execute(f"import os\nos.symlink('/etc', {str(work / 'images')!r})")
        assert (await executor.execute(PICTURE)).images[0].parent == images


async def test_pictures_do_not_follow_a_link_that_code_made(project: Path) -> None:
    outside = project / "outside"
    work = project / "work"
    for folder in (outside, work):
        folder.mkdir()
    os.chdir(work)
    async with CodeExecutor() as executor:
        with pytest.raises(OSError, match="symbolic links"):
            await executor.execute(f"import os\nos.symlink({str(outside)!r}, 'images')\n{PICTURE}")
    assert list(outside.iterdir()) == []


@pytest.mark.slow
async def test_links_that_code_made_lead_to_no_other_folder(project: Path) -> None:
    """Not in a next kernel, which attaches the folders anew, and not in a next program."""
    work, private = project / "work", project / "private"
    for folder in (work / "pictures", work / "lib", private):
        folder.mkdir(parents=True)
    env = {"PYTHONPATH": str(work / "lib")}
    replace = "import os\nfor name in ('pictures', 'lib'):\n    os.rmdir(name)\n    os.symlink(PLACE, name)"
    async with CodeExecutor(working_dir=work, images_dir=work / "pictures", kernel_env=env) as executor:
        await executor.execute(replace.replace("PLACE", repr(str(private))))
        with pytest.raises(moonpool.FolderError, match="link that code may have made"):
            await executor.reset()
    for options in ({"kernel_env": env}, {"images_dir": work / "pictures"}):
        with pytest.raises(moonpool.FolderError, match="link that code may have made"):
            await CodeExecutor(working_dir=work, **options).start()
    os.chdir(work)
    (work / "images").symlink_to(private)
    async with CodeExecutor() as executor:
        with pytest.raises(OSError, match="symbolic links"):
            await executor.execute(PICTURE)
    assert list(private.iterdir()) == []


async def test_what_the_host_imports_late_is_not_what_code_wrote(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", str(project), *sys.path])
    async with CodeExecutor() as executor:
        await executor.execute("for name in ('this', 'uv', 'own'): open(name + '.py', 'w').write('by_code = True')")
    for name in ("this", "uv"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin != str(project / f"{name}.py"), name
    assert importlib.util.find_spec("own") is None  # this file is not in the folder


async def test_packages_of_the_host_are_read_only(project: Path) -> None:
    (project / "mcptools/echo").mkdir(parents=True)
    (project / "mcptools/echo/text.py").write_text("x = 1", encoding="utf-8")
    async with CodeExecutor() as executor:
        for code in ("open('mcptools/echo/text.py', 'w')", "import os; os.rename('mcptools', 'away')"):
            with pytest.raises(CodeExecutionError, match=r"Read-only file system|Device or resource busy"):
                await executor.execute(code)


async def test_a_kernel_of_a_gateway_is_in_its_directory(project: Path) -> None:
    (work := project / "work").mkdir()
    async with KernelGateway(port=2, working_dir=work), KernelClient(port=2) as client:
        assert (await client.execute("import os\nprint(os.getcwd())")).text == str(work)


async def test_a_link_that_code_made_leads_to_no_servers_of_another_project(project: Path) -> None:
    other, work = project / "other/mcptools", project / "work"
    for folder in (other / "theirs", work):
        folder.mkdir(parents=True)
    register(other, "theirs", {"command": "/bin/false"}, os.environ)
    assert list(registered([other], os.environ)) == ["theirs"]
    (work / "mcptools").symlink_to(other)
    assert registered([work / "mcptools"], os.environ) == {}


async def test_a_home_is_refused_by_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(moonpool.FolderError, match=r"it is a home.*working_dir=Path\(\.\.\.\)"):
        await CodeExecutor().start()


async def test_a_path_may_be_text_and_nothing_else_is_one(project: Path) -> None:
    folder = str(project)
    executor = CodeExecutor(working_dir=folder, images_dir="shown", sandbox_config="config.json")
    assert (executor.working_dir, executor.images_dir) == (project, Path("shown"))
    assert KernelGateway(working_dir=folder).working_dir == KernelClient(working_dir=folder).working_dir == project
    wrong: Any = 5
    for made in (CodeExecutor, KernelClient, KernelGateway):
        with pytest.raises(moonpool.InputError, match=r"^working_dir must be a path \(str or Path\), not int$"):
            made(working_dir=wrong)
    with pytest.raises(moonpool.InputError, match=r"^root_dir must be a path"):
        await generate_mcp_sources("echo", {}, wrong)
