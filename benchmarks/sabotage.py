"""Break, one by one, the lines that guard against faults, and see that the tests notice.

    python benchmarks/sabotage.py

A test that cannot fail proves nothing. For every row of the tables in docs/faults.md, a copy of
the package loses a line that the row rests on; the row's test must then fail, and pass with the
package as it is. `--slow` adds the rows whose tests start several processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Sabotage(NamedTuple):
    """A line of the package, what becomes of it, and the test that must notice."""

    test: str
    file: str
    good: str
    bad: str
    slow: bool = False


_REFUSED = "test_data_nothing_can_be_learned_from_never_starts_a_run"
SABOTAGES = (
    Sabotage(
        "test_a_run_killed_at_random_moments_ends_with_the_same_bytes",
        "transop/training/loop.py",
        'optimiser.load_state_dict(state["optimisers"][name])',
        "pass",
    ),
    Sabotage(
        "test_ctrl_c_on_a_terminal_leaves_a_run_that_resume_finishes",
        "transop/training/loop.py",
        "if must_stop:\n            self.save()",
        "if must_stop:",
    ),
    Sabotage(
        "test_ctrl_c_stops_all_processes_with_a_checkpoint",
        "transop/training/processes.py",
        "os.kill(child.pid, signal.SIGINT)",
        "os.kill(child.pid, signal.SIGKILL)",
        slow=True,
    ),
    Sabotage(
        "test_a_killed_process_stops_the_others_and_resume_goes_on",
        "transop/training/processes.py",
        "if _lost_contact(error):",
        "if False:",
        slow=True,
    ),
    Sabotage(
        "test_a_full_disk_stops_the_run_and_resume_finishes_it",
        "transop/artifacts/state.py",
        "        raise\n    finally:\n        aside",
        "        return\n    finally:\n        aside",
    ),
    Sabotage(
        "test_a_write_that_fails_at_any_moment_loses_nothing",
        "transop/artifacts/state.py",
        "        raise\n    finally:\n        aside",
        "        return\n    finally:\n        aside",
    ),
    Sabotage(
        "test_a_read_only_output_is_refused_before_anything_is_computed",
        "transop/artifacts/run_folder.py",
        "raise ArtifactError(f\"cannot write to '{self.path}': {error.strerror}\") from None",
        "raise",
    ),
    Sabotage(
        "test_two_runs_into_one_folder_are_told_apart",
        "transop/artifacts/run_folder.py",
        "lock.acquire(timeout=0)",
        "pass",
    ),
    Sabotage(
        "test_a_damaged_newest_checkpoint_is_named_and_passed_over",
        "transop/artifacts/state.py",
        'if info.get("digest") != _digest(tensors, skeleton):',
        "if False:",
    ),
    Sabotage(
        "test_a_full_stop_in_the_middle_of_a_download_costs_only_time",
        "transop_paper/published/download.py",
        "download(base + name, folder / name, progress)",
        "download(base + name, folder.parent / name, progress)",
    ),
    Sabotage(
        "test_a_full_stop_while_images_are_decoded_costs_only_time",
        "transop/artifacts/mapped.py",
        'complete = scratch / "complete"\n        complete.mkdir()',
        "complete = folder\n        complete.mkdir(parents=True, exist_ok=True)",
    ),
    Sabotage(
        "test_a_full_stop_while_features_are_computed_costs_only_time",
        "transop/artifacts/mapped.py",
        'complete = scratch / "complete"\n        complete.mkdir()',
        "complete = folder\n        complete.mkdir(parents=True, exist_ok=True)",
    ),
    Sabotage(
        "test_a_damaged_cache_is_noticed_and_rebuilt",
        "transop/artifacts/mapped.py",
        'if digest_rows(rows) != notes["digest"]:',
        "if False:",
    ),
    Sabotage(
        "test_a_cache_that_cannot_be_written_costs_a_warning_only",
        "transop/pairs/strategies.py",
        "except OSError as error:",
        "except KeyError as error:",
    ),
    Sabotage(
        "test_a_damaged_cache_file_is_renamed_aside_and_fetched_again",
        "transop_paper/published/sources.py",
        "_set_aside(damaged)",
        "damaged.name",
    ),
    Sabotage(
        "test_a_step_that_is_not_finite_is_taken_back_and_halved",
        "transop/training/loop.py",
        "self.step_factor / 2, self.step",
        "self.step_factor, self.step",
    ),
    Sabotage(
        _REFUSED,
        "transop/data/array_files.py",
        "archive.read(info)), allow_pickle=False",
        "archive.read(info)), allow_pickle=True",
    ),
    Sabotage(_REFUSED, "transop/data/pictures.py", "if unpacked > max(", "if unpacked < min("),
    Sabotage(_REFUSED, "transop/data/pictures.py", 'or ".." in parts', ""),
    Sabotage(
        _REFUSED,
        "transop/data/arrays.py",
        "if not (math.isfinite(least)",
        "if (math.isfinite(least)",
    ),
    Sabotage(_REFUSED, "transop/data/arrays.py", 'array.dtype.kind not in "iubf"', "False"),
    Sabotage(_REFUSED, "transop/data/findings.py", "if n < FEWEST_IMAGES:", "if False:"),
    Sabotage(
        _REFUSED,
        "transop/data/findings.py",
        "if n > 1 and all(",
        "if False and all(",
    ),
    Sabotage(
        "test_pickles_are_refused_and_never_executed",
        "transop/data/array_files.py",
        'mmap_mode="r" if mapped else None, allow_pickle=False',
        "allow_pickle=True",
    ),
    Sabotage(
        "test_a_symbolic_link_in_a_zip_is_refused",
        "transop/data/pictures.py",
        "if stat.S_ISLNK(",
        "if not (",
    ),
    Sabotage(
        "test_unusual_pictures_are_images_like_any_other",
        "transop/data/picture.py",
        "ImageOps.exif_transpose(picture, in_place=True)",
        "pass",
    ),
    Sabotage(
        "test_an_unreadable_picture_is_described_in_plain_words",
        "transop/data/picture.py",
        'return "it is cut short"',
        "pass",
    ),
    Sabotage(
        "test_odd_data_is_used_and_the_user_is_told",
        "transop/data/findings.py",
        "if n_constant and not flaws:",
        "if False:",
    ),
    Sabotage(
        "test_one_class_leaves_out_what_needs_two",
        "transop/identity.py",
        "return bool((training != training[0]).any())",
        "return True",
    ),
    Sabotage(
        "test_more_latent_dimensions_than_data_are_refused",
        "transop/data/run_data.py",
        "if latent_dimension > min(n_values, n_images):",
        "if False:",
    ),
    Sabotage(
        "test_zero_operators_are_refused_with_the_alternative",
        "transop/config/sections.py",
        "operators.n_operators = 0 leaves no",
        "there are no",
    ),
    Sabotage(
        "test_no_damaged_or_made_up_input_ends_in_a_traceback_a_hang_or_running_code",
        "transop/data/array_files.py",
        "raise DataError(",
        "raise ValueError(",
    ),
    Sabotage(
        "test_nonsense_is_refused_in_one_line_or_used",
        "transop/inputs.py",
        "if not isinstance(value, Tensor):",
        "if False:",
    ),
    Sabotage(
        "test_a_place_deeper_than_folders_can_be_is_a_mistake",
        "transop/files.py",
        "if len(path.parts) > DEEPEST:",
        "if False:",
    ),
    Sabotage(
        "test_links_that_lead_in_a_circle_are_mistakes",
        "transop/files.py",
        "except (OSError, RuntimeError) as error:",
        "except KeyError as error:",
    ),
    Sabotage(
        "test_the_same_seed_gives_the_same_file_and_another_seed_another",
        "transop/training/session.py",
        "torch.manual_seed(self.seed(*names))",
        "torch.seed()",
    ),
    Sabotage(
        "test_resuming_on_a_file_whose_content_has_changed_is_refused",
        "transop/data/run_data.py",
        "if dataset.content_hash() == self.content_hash:",
        "if True:",
    ),
    Sabotage(
        "test_resuming_a_run_on_an_array_never_trains_on_the_recipes_own_images",
        "transop/data/run_data.py",
        "if dataset is None and wanted.source == ARRAY:",
        "if False:",
    ),
    Sabotage(
        "test_what_does_not_exist_cannot_be_resumed",
        "transop_app/cli/runs.py",
        "if not folder.path.exists():",
        "if False:",
    ),
    Sabotage(
        "test_more_devices_than_processors_are_refused_before_any_starts",
        "transop/training/session.py",
        "most = max(_FEWEST_PROCESSES, count_processors())",
        "most = 10**6",  # the size of the batches still keeps processes from starting
    ),
    Sabotage(
        "test_what_is_no_regular_file_is_refused_by_name",
        "transop/files.py",
        "_refuse_odd(path, os.fstat(number))",
        "pass",
    ),
    Sabotage(
        "test_a_repeated_column_of_a_csv_is_refused",
        "transop/pairs/given.py",
        "if repeated:",
        "if False:",
    ),
    Sabotage(
        "test_weights_that_are_no_numbers_are_refused",
        "transop/artifacts/pretrained.py",
        "not bool(weight.isfinite().all())",
        "False",
    ),
    Sabotage(
        "test_spawned_workers_move_images_each_in_their_own_way",
        "transop/augment/walk.py",
        "(self.generator.initial_seed() + info.seed) % 2**63",
        "self.generator.initial_seed()",
    ),
    Sabotage(
        "test_a_foreign_host_is_refused",
        "transop_app/explorer/gate.py",
        "if not name or (name not in self._names and name != reached):",
        "if not name:",
    ),
    Sabotage(
        "test_a_foreign_origin_is_refused",
        "transop_app/explorer/gate.py",
        "_check_sender(scope, headers, host)",
        "pass",
    ),
)


def run_test(name: str, source: Path, kernels: Path) -> bool:
    """Run a test on a package; say whether it passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "slow or not slow", "-k", name]
    files = [str(file) for file in (ROOT / "tests").rglob("test_*.py") if name in file.read_text()]
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(kernels)}
    options = ["-p", "no:cacheprovider", *files]
    done = subprocess.run([*command, *options], cwd=ROOT, env=environment, capture_output=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{name}: {done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def broken(scratch: Path, sabotage: Sabotage) -> Path:
    """Copy the package and break the copy."""
    target = scratch / "broken"
    shutil.rmtree(target, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", target, ignore=skipped)
    file = target / sabotage.file
    text = file.read_text()
    if sabotage.good not in text:
        raise SystemExit(f"{sabotage.file} has no line {sabotage.good!r} any more")
    file.write_text(text.replace(sabotage.good, sabotage.bad))
    return target


def unnoticed(chosen: list[Sabotage], scratch: Path) -> Iterator[str]:
    """Tell which tests fail without sabotage, or pass in spite of it."""
    kernels = scratch / "kernels"
    for name in dict.fromkeys(sabotage.test for sabotage in chosen):
        if not run_test(name, ROOT / "src", kernels):
            yield f"{name} fails without sabotage"
    for sabotage in chosen:
        passed = run_test(sabotage.test, broken(scratch, sabotage), kernels)
        print(f"{'NOT NOTICED' if passed else 'noticed':12} {sabotage.test}", flush=True)
        if passed:
            yield f"{sabotage.test} passes although {sabotage.file} lost {sabotage.good!r}"


def main() -> int:
    """Sabotage, print, and fail if anything went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--slow", action="store_true", help="also tests that take minutes")
    parser.add_argument("--only", default="", help="part of a test's name")
    options = parser.parse_args()
    chosen = [s for s in SABOTAGES if options.only in s.test and (options.slow or not s.slow)]
    with tempfile.TemporaryDirectory() as scratch:
        complaints = list(unnoticed(chosen, Path(scratch)))
    for complaint in complaints:
        print(complaint)
    print(f"{len(chosen)} sabotages, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
