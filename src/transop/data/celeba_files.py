"""Where CelebA's published files are: in a folder, in its subfolders, or in the zip."""

import contextlib
import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from transop.data.celeba_layout import ATTRIBUTES_FILE, FACTORS_FILE, IMAGES, PARTITION_FILE
from transop.data.request import DatasetRequest
from transop.errors import DataError

HOMEPAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
_ZIP = f"{IMAGES}.zip"
_FOLDERS = ("", "Anno", "Eval", "Img", "celeba")  # the publisher's, and other tools'
_PUBLISHED_IN = {
    _ZIP: "Img",
    ATTRIBUTES_FILE: "Anno",
    PARTITION_FILE: "Eval",
}
_WEB_PAGE_BYTES = 2**16


def how_to_get(name: str) -> str:
    """Tell where a file is published and where to put it."""
    return (
        f"get it from {HOMEPAGE} (folder {_PUBLISHED_IN[name]} of the 'Align&Cropped Images' "
        f"drive), put {_ZIP} (or its content), {ATTRIBUTES_FILE} and {PARTITION_FILE} into one "
        "folder and pass that folder as path"
    )


@dataclass(frozen=True)
class CelebaFiles:
    """CelebA's files, found: images by name, and where the tables may be.

    Attributes:
        root: the folder or zip the user named.
        images: for every image name, its path in the folder or member name in the archive.
        archive: the opened zip, or ``None`` for a folder.
        folders: where the tables are looked for.
    """

    root: Path
    images: dict[str, str]
    archive: zipfile.ZipFile | None
    folders: tuple[Path, ...]

    def read_image(self, name: str) -> bytes:
        """Read an encoded image; empty where the archive is damaged at this place."""
        try:
            if self.archive is not None:
                return self.archive.read(self.images[name])
            return Path(self.images[name]).read_bytes()
        except (OSError, zipfile.BadZipFile):
            return b""

    def read_text(self, name: str) -> str:
        """Read one of the two tables.

        Raises:
            DataError: it is nowhere to be found, or no text.
        """
        content = self._read(name)
        if content is None:
            raise DataError(
                f"CelebA's {name} is missing (looked beside and below '{self.root}'); "
                + how_to_get(name)
            )
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"CelebA's {name} is not a text file; {how_to_get(name)}") from None

    def read_factors(self, n_images: int) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
        """Read the factors that lie beside generated faces, and their names."""
        path = next((p for f in self.folders if (p := f / FACTORS_FILE).is_file()), None)
        if path is None:
            return None, None
        with np.load(path) as stored:
            factors, names = stored["factors"], tuple(str(name) for name in stored["names"])
        if len(factors) != n_images:
            raise DataError(
                f"'{path}' has {len(factors)} rows but {ATTRIBUTES_FILE} lists {n_images} images; "
                "write the faces again"
            )
        return factors, names

    def require_images(self, names: Sequence[str]) -> None:
        """Raise unless every image named in the table is there."""
        missing = [name for name in names if name not in self.images]
        if missing:
            raise DataError(
                f"{len(missing)} of {len(names)} images listed in {ATTRIBUTES_FILE} are missing "
                f"from '{self.root}' (first: {missing[0]}); unpack {_ZIP} again, or "
                + how_to_get(_ZIP)
            )

    def fingerprint(self) -> str:
        """Fingerprint the image files by name, size and time, without reading them."""
        digest = hashlib.sha256(str(self.root.resolve()).encode())
        if self.archive is not None:
            for info in self.archive.infolist():
                digest.update(f"{info.filename} {info.file_size} {info.CRC}\n".encode())
            return digest.hexdigest()
        for path in self.images.values():
            status = Path(path).stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _read(self, name: str) -> bytes | None:
        for folder in self.folders:
            if (folder / name).is_file():
                return (folder / name).read_bytes()
        if self.archive is not None:
            for member in self.archive.namelist():
                if PurePosixPath(member).name == name:
                    return self.archive.read(member)
        return None


@contextlib.contextmanager
def locate_celeba(request: DatasetRequest) -> Iterator[CelebaFiles]:
    """Find CelebA where the user says, or in the cache; close the zip afterwards.

    Raises:
        DataError: there is no such folder or zip, or it holds no images.
    """
    root = request.path if request.path is not None else request.cache_dir / "celeba"
    if not root.exists():
        raise DataError(
            f"CelebA is not at '{root}'; its licence forbids us to fetch it: {how_to_get(_ZIP)}"
        )
    if root.is_file():
        with _open_zip(root) as archive:
            beside = tuple(root.parent / name for name in (*_FOLDERS, "../Anno", "../Eval"))
            yield CelebaFiles(root, _members(archive), archive, beside)
        return
    folders = tuple(root / name for name in _FOLDERS)
    for folder in folders:
        if images := _images_below(folder):
            yield CelebaFiles(root, images, None, folders)
            return
    for folder in folders:
        if (folder / _ZIP).is_file():
            with _open_zip(folder / _ZIP) as archive:
                yield CelebaFiles(root, _members(archive), archive, folders)
            return
    raise DataError(
        f"CelebA's images ({IMAGES}/ or {_ZIP}) are missing in '{root}'; {how_to_get(_ZIP)}"
    )


def _images_below(folder: Path) -> dict[str, str]:
    """List the images of an unpacked archive, also where it was unpacked into its own name."""
    for candidate in (folder / IMAGES / IMAGES, folder / IMAGES):
        if candidate.is_dir():
            images = {path.name: str(path) for path in sorted(candidate.glob("*.jpg"))}
            if images:
                return images
    return {}


def _members(archive: zipfile.ZipFile) -> dict[str, str]:
    names = [name for name in archive.namelist() if name.lower().endswith(".jpg")]
    return {PurePosixPath(name).name: name for name in names}


def _open_zip(path: Path) -> zipfile.ZipFile:
    """Open the archive, telling a saved web page and a broken download apart."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError):
        pass
    with path.open("rb") as file:
        beginning = file.read(_WEB_PAGE_BYTES).lower()
    if b"<html" in beginning or b"<!doctype html" in beginning:
        quota = b"quota" in beginning or b"too many users" in beginning
        what = "Google Drive's 'quota exceeded' page" if quota else "a web page"
        raise DataError(
            f"'{path}' is {what} saved under the name of the zip, not the images; delete it, "
            f"try again in a day or from another mirror: {HOMEPAGE}"
        )
    raise DataError(
        f"'{path}' is no complete zip file ({path.stat().st_size:,} bytes; the published "
        f"{_ZIP} has about 1.4 GB); download it again from {HOMEPAGE}"
    )
