"""Transport operators for any table of vectors, with scikit-learn's habits.

scikit-learn itself is optional: where it is missing, a small class takes the place of its base
class, and everything but its own tools (clone, Pipeline, GridSearchCV) works.
"""

from __future__ import annotations

import contextlib
import inspect
import numbers
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from transop.data.arrays import to_numpy
from transop.errors import DataError, UserError
from transop.inputs import (
    check_choice,
    check_indices,
    check_number,
    check_seed,
    check_times,
    check_whole,
)
from transop.learning import LearnedOperators, learn_operators
from transop.learning.step import infer_quietly, measure_paths
from transop.operators import sample_moves, transport_path
from transop.pairs.neighbours import nearest_neighbours


class _WithoutSklearn:
    """The part of scikit-learn's base class that needs no scikit-learn."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the arguments of the constructor."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Any:
        """Change arguments of the constructor."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise UserError(f"unknown parameter {name!r}; choose from {sorted(known)}")
            setattr(self, name, value)
        return self


_Base = _WithoutSklearn
_NotFitted = UserError
if not TYPE_CHECKING:
    with contextlib.suppress(ImportError):
        from sklearn.base import BaseEstimator as _Base
        from sklearn.exceptions import NotFittedError as _NotFitted


# Above this many dimensions operators act on the first principal directions alone.
_WIDE = 64
_EXPLAINED = 0.9
_LARGEST = 1e30  # squares of larger values are infinite in single precision soon
_MEASURED = 2000  # pairs that the scale of random moves is measured on

Matrix = Float[np.ndarray, "n d"]


class TransportOperatorLearner(_Base):
    """Learns how vectors vary along their manifold, and moves vectors that way.

    Rows are compared with their nearest neighbours; operators are learned whose flow carries a
    row to its neighbours (`transop.learn_operators`). The mean of the rows is the origin of the
    flow. With many columns operators act on the first principal directions, and what a row has
    in the other directions is carried along unchanged.

    Args:
        n_operators: size of the dictionary; operators that are not needed die out.
        n_neighbours: pairs per row.
        n_components: directions the operators act on: a number, a share of the variance (below
            1) to explain, or ``"auto"``: all columns up to 64, else as many principal directions
            as explain 90 % of the variance, at most 64.
        n_blocks: cut these directions into equal blocks that operators do not mix.
        block_layout: ``"diagonal"``: an operator acts on all blocks, with one coefficient;
            ``"one-per-operator"``: each operator acts on one block, with a coefficient of its own.
        sparsity_weight: zeta of [OBJECTIVE], for rows of mean length one; chosen from the data if
            left out, with the other weights.
        operator_decay: gamma of [OBJECTIVE].
        n_steps: steps of learning.
        batch_size: pairs per step.
        learning_rate: of the first step.
        n_copies: moved copies of every row that ``fit_resample`` adds.
        random_state: seed of all randomness.

    Attributes:
        operators_: shape (n_operators, n_components_, n_components_).
        learned_: the result of `learn_operators`, with its evidence.
        coefficient_scale_: mean size of every operator's coefficient between neighbours; the
            scale of random moves.
        n_components_: directions the operators act on.
        explained_share_: share of the variance in these directions.
        components_: these directions, one per row; None if they are the columns themselves.
        mean_: the origin of the flow.
        n_features_in_: columns seen in ``fit``.
        n_duplicates_: rows left out of learning because they equal an earlier one.
    """

    def __init__(
        self,
        n_operators: int = 16,
        *,
        n_neighbours: int = 5,
        n_components: int | float | Literal["auto"] = "auto",
        n_blocks: int = 1,
        block_layout: Literal["one-per-operator", "diagonal"] = "one-per-operator",
        sparsity_weight: float | None = None,
        operator_decay: float | None = None,
        n_steps: int = 600,
        batch_size: int = 250,
        learning_rate: float = 5e-3,
        n_copies: int = 1,
        random_state: int = 0,
    ) -> None:
        self.n_operators = n_operators
        self.n_neighbours = n_neighbours
        self.n_components = n_components
        self.n_blocks = n_blocks
        self.block_layout = block_layout
        self.sparsity_weight = sparsity_weight
        self.operator_decay = operator_decay
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_copies = n_copies
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, pairs: Any = None, features: Any = None
    ) -> TransportOperatorLearner:
        """Learn operators from rows.

        Args:
            X: shape (rows, columns).
            y: ignored; there because pipelines pass it.
            pairs: shape (pairs, 2), row numbers that belong together; nearest neighbours if left
                out.
            features: shape (rows, any), compared instead of X to find nearest neighbours.
        """
        rows = check_matrix(X, "X", smallest=2)
        self._generator()  # refuses a seed before anything is learned
        check_whole("n_blocks", self.n_blocks, least=1)
        check_whole("n_neighbours", self.n_neighbours, least=1)
        self.n_features_in_ = rows.shape[1]
        names = getattr(X, "columns", None)  # of a data frame
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self._find_directions(rows)
        z = self._reduce(rows)
        chosen, self.n_duplicates_ = self._choose_pairs(rows, pairs, features)
        z0, z1 = z[chosen[:, 0]], z[chosen[:, 1]]
        self.learned_: LearnedOperators = learn_operators(
            z0,
            z1,
            self.n_operators,
            sparsity_weight=self.sparsity_weight,
            operator_decay=self.operator_decay,
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            n_blocks=self.n_blocks,
            block_layout=self.block_layout,
            generator=self._generator(),
        )
        self.operators_ = self.learned_.operators.numpy()
        some = torch.randperm(len(z0), generator=self._generator())[:_MEASURED]
        found = self._infer(z0[some], z1[some])
        self.coefficient_scale_ = found.abs().mean(0).numpy()
        return self

    def sample(self, X: Any, *, multiplier: float = 1.0, random_state: int | None = None) -> Matrix:
        """Move every row at random, as far as neighbours are apart.

        Args:
            X: rows, as in ``fit``.
            multiplier: factor on ``coefficient_scale_``; smaller moves stay closer to the row.
            random_state: seed of this draw; that of the estimator if left out.
        """
        rows = self._check_fitted(X)
        z = self._reduce(rows)
        factor = check_number("multiplier", multiplier, "a number from 0 on")
        scales = z.new_tensor(self.coefficient_scale_ * factor).expand(len(z), -1)
        generator = self._generator(random_state)
        moved, _ = sample_moves(self.learned_.operators, z, scales, generator=generator)
        return self._restore(rows, z, moved)

    def infer(self, X0: Any, X1: Any) -> Float[np.ndarray, "n m"]:
        """Find the sparse coefficients whose flow carries each row of X0 to that of X1."""
        z0, z1 = (self._reduce(rows) for rows in self._check_pairs(X0, X1))
        return self._infer(z0, z1).numpy()

    def path(self, X0: Any, X1: Any, t: Any) -> Float[np.ndarray, "n t d"]:
        """Follow the path from each row of X0 towards that of X1.

        Args:
            X0: where paths start.
            X1: where they lead, about: sparsity stops them short.
            t: positions, 0 at the start, 1 at the end, beyond 1 extrapolated.

        Returns:
            One row per path and position. Directions that operators do not act on keep the
            values of X0.
        """
        first, second = self._check_pairs(X0, X1)
        z0, z1 = self._reduce(first), self._reduce(second)
        times = check_times(t, z0)
        frames = transport_path(self.learned_.operators, self._infer(z0, z1), z0, times)
        places = [self._restore(first, z0, frames[:, i]) for i in range(len(times))]
        return np.stack(places, 1) if places else np.zeros((len(first), 0, first.shape[1]))

    def score(self, X: Any, y: Any = None) -> float:
        """Give the mean share of the distance between neighbours in X that paths cover."""
        rows = self._check_fitted(X, smallest=2)
        z = self._reduce(rows)
        chosen, _ = self._choose_pairs(rows, None, None)
        scale = self.learned_.latent_scale
        return measure_paths(
            self.learned_.operators,
            z[chosen[:, 0]] / scale,
            z[chosen[:, 1]] / scale,
            sparsity_weight=self.learned_.objective.sparsity_weight,
        ).covered

    def fit_resample(self, X: Any, y: Any) -> tuple[Matrix, np.ndarray]:
        """Learn from rows and add moved copies of them with their labels, as imbalanced-learn does.

        Args:
            X: shape (rows, columns).
            y: one label per row.

        Returns:
            The rows followed by ``n_copies`` moved copies of each, and the labels of all.
        """
        rows, labels = check_matrix(X, "X", smallest=2), to_numpy(y, "y")
        if labels.shape[:1] != (len(rows),):
            raise DataError(
                f"y has shape {labels.shape}; pass one label for each of {len(rows)} rows"
            )
        n_copies = check_whole("n_copies", self.n_copies, least=0)
        self.fit(X)
        first = 0 if self.random_state is None else self.random_state
        copies = [self.sample(rows, random_state=first + 1 + i) for i in range(n_copies)]
        return np.concatenate([rows, *copies]), np.concatenate([labels] * (1 + n_copies))

    def _find_directions(self, rows: Matrix) -> None:
        """Choose the directions that operators act on, and the origin of the flow."""
        n_rows, width = rows.shape
        self.mean_ = rows.mean(0)
        wanted = _check_components(self.n_components)
        self.components_: np.ndarray | None = None
        self.n_components_, self.explained_share_ = width, 1.0
        if wanted == width or (wanted == "auto" and width <= _WIDE):
            return
        _, sizes, directions = np.linalg.svd(rows - self.mean_, full_matrices=False)
        shares = np.cumsum(sizes**2) / max(float((sizes**2).sum()), np.finfo(float).tiny)
        count = _count_directions(wanted, shares, self.n_blocks, min(n_rows, width))
        self.n_components_, self.explained_share_ = count, float(shares[count - 1])
        self.components_ = directions[:count]

    def _reduce(self, rows: Matrix) -> Float[Tensor, "n k"]:
        """Give the coordinates that operators act on."""
        centred = rows - self.mean_
        z = centred if self.components_ is None else centred @ self.components_.T
        return torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32))

    def _restore(self, rows: Matrix, z: Tensor, moved: Tensor) -> Matrix:
        """Add a move in these coordinates to the rows."""
        step = (moved - z).numpy()
        restored: Matrix = rows + (step if self.components_ is None else step @ self.components_)
        return restored.astype(rows.dtype)

    def _choose_pairs(
        self, rows: Matrix, pairs: Any, features: Any
    ) -> tuple[Int64[Tensor, "p 2"], int]:
        """Give the numbers of paired rows, and how many duplicates were left out."""
        if pairs is not None:
            table = to_numpy(pairs, "pairs")
            if table.ndim != 2 or table.shape[1] != 2:
                raise DataError(
                    f"pairs has shape {table.shape}; pass row numbers of shape (pairs, 2)"
                )
            return check_indices("pairs", table.reshape(-1), len(rows)).reshape(-1, 2), 0
        compared = rows if features is None else check_matrix(features, "features", smallest=2)
        if len(compared) != len(rows):
            raise DataError(
                f"features has {len(compared)} rows but X has {len(rows)}; pass as many"
            )
        kept = np.sort(np.unique(rows, axis=0, return_index=True)[1])
        if len(kept) < 2:
            raise DataError(
                f"all {len(rows)} rows of X are equal (duplicates), so there is no move to learn; "
                "pass rows that differ"
            )
        count = min(self.n_neighbours, len(kept) - 1)
        away = compared[kept] - compared[kept].mean(0)  # single precision would lose a large mean
        if not away.any():
            raise DataError(
                f"all {len(kept)} rows of features are equal, so no row is nearer than another; "
                "pass features that differ, or leave them out"
            )
        near = nearest_neighbours(torch.from_numpy(away / np.abs(away).max()).float(), count)
        places = torch.from_numpy(kept)
        chosen = torch.stack([places.repeat_interleave(count), places[near.flatten()]], 1)
        return chosen, len(rows) - len(kept)

    def _infer(self, z0: Tensor, z1: Tensor) -> Float[Tensor, "n m"]:
        scale, weight = self.learned_.latent_scale, self.learned_.objective.sparsity_weight
        return infer_quietly(self.learned_.operators, z0 / scale, z1 / scale, weight)

    def _generator(self, seed: int | None = None) -> torch.Generator:
        chosen = self.random_state if seed is None else seed
        return torch.Generator().manual_seed(
            0 if chosen is None else check_seed("random_state", chosen)
        )

    def _check_fitted(self, X: Any, name: str = "X", smallest: int = 1) -> Matrix:
        if not hasattr(self, "learned_"):
            raise _NotFitted(
                f"this {type(self).__name__} has not learned anything yet; call fit first"
            )
        rows = check_matrix(X, name, smallest=smallest)
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"{name} has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return rows

    def _check_pairs(self, X0: Any, X1: Any) -> tuple[Matrix, Matrix]:
        first, second = self._check_fitted(X0, "X0"), self._check_fitted(X1, "X1")
        if len(first) != len(second):
            raise DataError(f"X0 has {len(first)} rows and X1 {len(second)}; pass as many of both")
        return first, second


class _NoTable(DataError, TypeError):
    """Something is no table of numbers; scikit-learn's tools expect a `TypeError`."""


def check_matrix(values: Any, name: str, *, smallest: int = 1) -> Matrix:
    """Read a table of finite numbers with so many rows, or say in one line what is wrong."""
    if hasattr(values, "toarray"):
        raise _NoTable(f"{name} is a sparse matrix; pass a dense one, e.g. {name}.toarray()")
    table = to_numpy(values, name)
    if np.iscomplexobj(table):
        raise DataError(f"Complex data not supported: {name} is {table.dtype}; pass real numbers")
    if table.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {table.ndim}D array instead: {name} has shape {table.shape}; "
            "Reshape your data to (rows, columns)"
        )
    if not np.issubdtype(table.dtype, np.floating) or table.dtype == np.float16:
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise _NoTable(
                f"{name} holds values that are no numbers ({error}); argument must be a number"
            ) from None
    if table.shape[1] == 0:
        raise DataError(
            f"{name} has 0 feature(s) (shape={table.shape}) while a minimum of 1 is required."
        )
    if len(table) < smallest:
        raise DataError(
            f"{name} has {len(table)} row(s) (n_samples={len(table)}); pass at least {smallest}"
        )
    bad: Bool[np.ndarray, " n"] = ~np.isfinite(table).all(1)
    if bad.any():
        raise DataError(
            f"{name} has NaN or inf in {int(bad.sum())} of {len(table)} rows, first in row "
            f"{int(bad.argmax())}; remove or fill them"
        )
    if np.abs(table).max() > _LARGEST:
        raise DataError(
            f"{name} has values up to {np.abs(table).max():.0e}; divide its columns, so that they "
            f"stay below {_LARGEST:.0e}"
        )
    return table


def _check_components(wanted: Any) -> int | float | str:
    """Take a number of directions, a share of the variance, or "auto"."""
    if isinstance(wanted, str):
        check_choice("n_components", wanted, ("auto",))
        return wanted
    if isinstance(wanted, numbers.Integral):
        return check_whole("n_components", wanted, least=1)
    what = "'auto', a whole number of directions, or a share of the variance between 0 and 1"
    return check_number("n_components", wanted, what, high=1 - 1e-9, open=True)


def _count_directions(
    wanted: int | float | str, shares: np.ndarray, n_blocks: int, most: int
) -> int:
    """Turn ``n_components`` into a number of directions that the blocks divide."""
    if isinstance(wanted, int):
        return check_whole("n_components", wanted, least=1, most=most)
    share, limit = (wanted, most) if isinstance(wanted, float) else (_EXPLAINED, _WIDE)
    count = min(int(np.searchsorted(shares, share)) + 1, limit, most)
    rounded = -(-count // n_blocks) * n_blocks
    return rounded if rounded <= most else max(n_blocks, most // n_blocks * n_blocks)
