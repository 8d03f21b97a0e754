"""Run: the one way to open, describe and continue a trained run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.artifacts import RunFolder, read_json
from transop.config import PHASES, Settings, load_settings
from transop.data import ImageDataset, load_dataset
from transop.data.run_data import DataRecord, open_run_data
from transop.errors import ArtifactError, UserError
from transop.inputs import check_callable, check_device, check_flag, check_path
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent

_CHUNK = 1000  # images encoded at a time


class Run:
    """A run folder, opened: settings, model, the data it was trained on, and what was measured.

    Nothing is read before it is asked for, so that looking at one part needs only that part: the
    report of a run whose images are gone still opens.

    Attributes:
        folder: the paths of the run's files.
        given_data: the images of the run, if they were handed over anew.
        progress: announces long work.
    """

    def __init__(
        self, folder: RunFolder, data: Any, device: Any, offline: bool, progress: Progress
    ) -> None:
        self.folder, self.given_data, self.progress = folder, data, progress
        self._device, self._offline = device, offline

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        data: Any = None,
        device: str | torch.device | None = None,
        offline: bool = False,
        progress: Progress = silent,
    ) -> Self:
        """Open a run folder, or a folder that ``save_pretrained`` wrote.

        Args:
            path: the folder.
            data: the images of the run again, if they are no longer where they were or came from
                an array; they are checked by content.
            device: where the model goes; the CPU if not given.
            offline: never touch the network to find the images.
            progress: announces long work.
        """
        folder = RunFolder(check_path("path", path))
        check_flag("offline", offline)
        check_callable("progress", progress, n_arguments=3)
        device = None if device is None else check_device(device)
        files = (folder.config_file, folder.model_file)
        try:
            is_run = any(file.is_file() for file in files)
        except (OSError, ValueError):  # a name too long for the system, a null byte
            is_run = False
        if not is_run:
            raise ArtifactError(
                f"'{path}' is not a run folder; train one with: transop train RECIPE"
            )
        return cls(folder, data, device, offline, progress)

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r}, phases={list(self.phases)})"

    @property
    def path(self) -> Path:
        """Where the run lies."""
        return self.folder.path

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.path.resolve().name

    @cached_property
    def settings(self) -> Settings:
        """The resolved settings it was trained with."""
        if not self.folder.config_file.exists():
            raise ArtifactError(
                f"'{self.path}' holds a model but no {self.folder.config_file.name}, so nothing "
                "is known about its training; name the run folder it came from"
            )
        return load_settings(self.folder.config_file)

    @cached_property
    def model(self) -> ManifoldAutoencoder:
        """The trained model."""
        return ManifoldAutoencoder.from_pretrained(self.path, device=self._device)

    @property
    def description(self) -> dict[str, Any]:
        """What the model's file says about it; empty before the end of the first phase."""
        return _read_table(self.folder.path / "config.json")

    @cached_property
    def data(self) -> DataRecord | None:
        """What it was trained on; None for a run of transop 0.1."""
        return DataRecord.read(self.folder)

    @cached_property
    def dataset(self) -> ImageDataset:
        """The very images it was trained on, all splits; other images are refused.

        A run that was passed on may carry some held-out images in place of the whole set.
        """
        if self.given_data is None and self.folder.held_out_file.is_file():
            carried = load_dataset(self.folder.held_out_file)
            return replace(carried, splits={"test": np.arange(len(carried))})
        return open_run_data(
            self.folder,
            self.settings,
            dataset=self.given_data,
            offline=self._offline,
            progress=self.progress,
        )

    @property
    def held_out_split(self) -> str:
        """The split whose images stand for new ones (test, else validation, else train)."""
        return self.dataset.held_out_split

    @cached_property
    def held_out_rows(self) -> np.ndarray:
        """Rows of ``dataset`` that were not trained on, where there are such."""
        return self.dataset.splits[self.held_out_split]

    @cached_property
    def held_out(self) -> ImageDataset:
        """The held-out images as a data set of their own."""
        return self.dataset.subset(self.held_out_split)

    @cached_property
    def class_names(self) -> list[str]:
        """What the classes are called, by number where they have no names; empty without labels."""
        if self.model.class_names is not None:
            return list(self.model.class_names)
        if self.data is not None:
            return list(self.data.class_names or ())
        named = self.dataset.meta.class_names
        return list(named or (str(k) for k in range(self.dataset.n_classes)))

    @cached_property
    def living_operators(self) -> list[int]:
        """Numbers of the operators that training left in use, the strongest first."""
        strength = self.model.operators.magnitudes().detach().cpu()
        living = self.model.operators.living().cpu()
        return [int(m) for m in strength.argsort(descending=True) if living[m]]

    def latents(self, rows: np.ndarray) -> Float[Tensor, "n d"]:
        """Encode images of the data set, in scaled units."""
        chunks = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
        return torch.cat([self.model.encode(self.dataset.batch(chunk)) for chunk in chunks])

    def generator(self, purpose: str) -> torch.Generator:
        """Make a source of randomness; the same run seed and purpose give the same numbers."""
        seed = (self.settings.runtime.seed * 1000 + sum(purpose.encode())) % 2**63
        return torch.Generator().manual_seed(seed)

    def require_phase(self, phase: str) -> ManifoldAutoencoder:
        """Give the model, or refuse if it has not been through a training phase."""
        if phase not in self.model.phases:
            what = "learned no operators" if phase == "operators" else f"no phase '{phase}'"
            raise UserError(
                f"the run in '{self.path}' has {what} yet; train it further with: "
                "transop train RECIPE --out RUN --resume"
            )
        return self.model

    @property
    def phases(self) -> dict[str, dict[str, Any]]:
        """What each finished phase measured, by name, in order."""
        found = self.folder.finished_phases()
        return {name: facts for name, facts in found.items() if isinstance(facts, dict)}

    @property
    def missing_phases(self) -> list[str]:
        """Names of the phases this run has not been through."""
        return [phase for phase in PHASES if phase not in self.phases]

    @property
    def seconds(self) -> float:
        """How long all phases took."""
        return float(sum(facts.get("seconds", 0.0) for facts in self.phases.values()))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Everything that was written down while it trained, one record per line of the file."""
        return self.folder.read_metrics()

    @property
    def findings(self) -> list[tuple[str, str]]:
        """What the diagnostics noticed, as pairs of phase and sentence."""
        return [
            (str(record.get("phase", "")), str(record["finding"]))
            for record in self.metrics
            if "finding" in record
        ]

    @property
    def loss_curves(self) -> dict[str, tuple[list[float], list[float]]]:
        """Steps and losses of every phase that wrote more than one."""
        curves: dict[str, tuple[list[float], list[float]]] = {}
        for record in self.metrics:
            loss, step = record.get("loss"), record.get("step", -1)
            if isinstance(loss, int | float) and math.isfinite(loss) and step >= 0:
                steps, losses = curves.setdefault(str(record.get("phase")), ([], []))
                steps.append(float(step))
                losses.append(float(loss))
        return {phase: curve for phase, curve in curves.items() if len(curve[0]) > 1}

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, commit, seed and hardware it was trained with."""
        return _read_table(self.folder.environment_file)

    def resume(self, *, progress: Progress | None = None) -> ManifoldAutoencoder:
        """Train the phases that are missing, on the data the run began with."""
        from transop.training import train  # only training needs what it imports

        data = self.given_data
        progress = progress or self.progress
        model = train(self.settings, self.folder, dataset=data, resume=True, progress=progress)
        for name in ("model", "living_operators", "class_names"):
            self.__dict__.pop(name, None)
        return model


def _read_table(file: Path) -> dict[str, Any]:
    """Read a JSON file's table; empty where there is no such file, or something else in it."""
    found = read_json(file) if file.exists() else {}
    return found if isinstance(found, dict) else {}
