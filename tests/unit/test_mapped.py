"""Arrays on disk: written once and whole, mapped afterwards, checked by their digest."""

import os
import subprocess
import sys

import numpy as np
import pytest

from transop.artifacts import mapped
from transop.artifacts.mapped import digest_rows, map_rows, write_rows

ROWS = np.arange(60, dtype=np.float16).reshape(20, 3)


def test_rows_read_back_with_their_notes(tmp_path):
    written, _ = write_rows(tmp_path / "x", [ROWS[:7], ROWS[7:]], lambda: {"recall": 0.5})
    rows, notes = map_rows(tmp_path / "x")
    assert isinstance(rows, np.memmap)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(written, ROWS)
    assert notes == {"recall": 0.5}
    np.testing.assert_array_equal(np.load(tmp_path / "x" / "rows.npy"), ROWS)  # numpy's own format


def test_a_missing_array_is_none_and_no_rows_are_an_error(tmp_path):
    assert map_rows(tmp_path / "nothing") is None
    with pytest.raises(ValueError, match="no rows"):
        write_rows(tmp_path / "x", [])
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def blocks():
        yield ROWS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(tmp_path / "x", blocks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["flipped", "short", "notes", "pickle"])
def test_a_damaged_array_is_noticed_and_can_be_replaced(tmp_path, damage, caplog):
    write_rows(tmp_path / "x", [ROWS])
    victim = tmp_path / "x" / ("notes.json" if damage == "notes" else "rows.npy")
    content = bytearray(victim.read_bytes())
    content[-1] ^= 0xFF
    victim.write_bytes({"short": content[:-9], "pickle": b"\x80\x04N."}.get(damage, content))
    assert map_rows(tmp_path / "x") is None
    assert "damaged" in caplog.text
    write_rows(tmp_path / "x", [ROWS])
    assert map_rows(tmp_path / "x") is not None


def test_the_digest_depends_on_values_shape_and_type_only():
    assert digest_rows(ROWS) == digest_rows(ROWS[::-1][::-1].copy(order="F"))
    assert digest_rows(ROWS) == digest_rows(ROWS.astype(">f2"))
    others = [ROWS.reshape(10, 6), ROWS.astype(np.float32), ROWS + np.float16(1)]
    assert len({digest_rows(rows) for rows in [ROWS, *others]}) == 4


def test_the_digest_is_the_same_in_another_process():
    code = "import numpy as np; from transop.artifacts.mapped import digest_rows; "
    code += "print(digest_rows(np.arange(60, dtype=np.float16).reshape(20, 3)))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == digest_rows(ROWS)


def test_a_large_array_is_read_at_evenly_spaced_rows(monkeypatch):
    monkeypatch.setattr(mapped, "_FULL_DIGEST_BYTES", 100)
    monkeypatch.setattr(mapped, "_SAMPLED_ROWS", 5)
    rows = np.zeros((101, 4), np.uint8)
    before = digest_rows(rows)
    rows[1] = 1
    assert digest_rows(rows) == before  # between two of the rows that are read
    for place in (0, 25, 50, 75, 100):
        changed = rows.copy()
        changed[place, 0] = 1
        assert digest_rows(changed) != before
