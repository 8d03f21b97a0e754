"""Measure the operator phase: our steps beside those of the authors' algorithm, in one run.

Both learn from the same start on the same batches of real pairs. Ours is the training loop
itself, with its checks and diagnostics; theirs is the published iteration for the coefficients and
autograd through the dense exponential for the dictionary, with nothing around it.
"""

import copy
import statistics
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float
from torch import Tensor

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.errors import UserError
from transop.inference import ConvergenceWarning, infer_coefficients, operator_penalty
from transop.operators import TransportOperators, transport
from transop.progress import Progress, silent
from transop.training import DictionaryLearner, Loop, Session
from transop_paper.bench.digit_operators import LearnedProblem, learn_operators
from transop_paper.contenders import CONTENDERS

REFERENCE = "proximal-nesterov"  # what the paper's authors ran
_REPORT_EVERY = 50  # steps between two lines of metrics, as in a long phase
_HELD_OUT = 500  # pairs on which both dictionaries are compared


@dataclass(frozen=True)
class TrainSize:
    """How large an operator phase is."""

    dimension: int = 10  # of the latent space
    n_operators: int = 16  # in the dictionary
    batch_size: int = 250  # pairs per step
    n_pairs: int = 50_000  # pairs per epoch; only the extrapolation to an epoch depends on it


@dataclass(frozen=True)
class TrainRun:
    """What one algorithm took and reached."""

    name: str  # ours, or the authors'
    seconds: tuple[float, ...]  # of every batch
    seconds_per_batch: float  # their mean
    epoch_seconds: float  # an epoch at that rate
    objective: float  # mean over held-out pairs afterwards, coefficients inferred by our solver


@dataclass(frozen=True)
class TrainBenchmark:
    """Everything one run of the benchmark measured; ``ratio`` is their time over ours."""

    size: TrainSize
    n_threads: int
    n_batches: int
    sparsity_weight: float
    start_objective: float
    ours: TrainRun
    authors: TrainRun
    ratio: float


def bench_train(
    size: TrainSize | None = None,
    *,
    n_batches: int = 10,
    learning_steps: int = 200,
    seed: int = 0,
    progress: Progress = silent,
) -> TrainBenchmark:
    """Take the same operator steps by our algorithm and the authors', batch by batch in turn.

    The common start is learned for ``learning_steps``, so that neither deals with operators
    that no training run shows.
    """
    size = size or TrainSize()
    if n_batches < 1 or size.batch_size < 2:
        raise UserError(
            f"n_batches={n_batches} must be at least 1 and batch_size={size.batch_size} at least 2"
        )
    problem = learn_operators(size.dimension, size.n_operators, n_steps=learning_steps, seed=seed)
    start = TransportOperators(size.n_operators, size.dimension)
    start.weight.data.copy_(problem.operators)
    generator = torch.Generator().manual_seed(seed + 1)
    held_out = problem.draw_pairs(_HELD_OUT, generator)
    batches = [problem.draw_pairs(size.batch_size, generator) for _ in range(n_batches)]
    ours, authors, runs = copy.deepcopy(start), start, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = _objective(problem, start, held_out)
        seconds = _race(problem, ours, authors, batches, progress)
        learned = {"ours": ours, "authors": authors}
        for (name, operators), times in zip(learned.items(), seconds, strict=True):
            mean = statistics.mean(times)
            epoch = mean * size.n_pairs / size.batch_size
            objective = _objective(problem, operators, held_out)
            runs.append(TrainRun(name, tuple(times), mean, epoch, objective))
    return TrainBenchmark(
        size=size,
        n_threads=torch.get_num_threads(),
        n_batches=n_batches,
        sparsity_weight=problem.sparsity_weight,
        start_objective=before,
        ours=runs[0],
        authors=runs[1],
        ratio=runs[1].seconds_per_batch / runs[0].seconds_per_batch,
    )


_Batch = tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]


def _race(
    problem: LearnedProblem,
    ours: TransportOperators,
    authors: TransportOperators,
    batches: list[_Batch],
    progress: Progress,
) -> tuple[list[float], list[float]]:
    """Time both on every batch, one after the other; whatever is done on first use before.

    Ours is the operator phase as training runs it, checks and diagnostics included.
    """
    weight, n_steps = f"objective.sparsity_weight={problem.sparsity_weight}", len(batches)
    settings = load_settings("demo", [weight, "runtime.device=cpu"])
    rate, decay = settings.operators.learning_rate, settings.objective.operator_decay
    adam = torch.optim.Adam(authors.parameters(), lr=rate)
    our_seconds, their_seconds = [], []
    with TemporaryDirectory() as folder:
        session = Session.open(settings, RunFolder(Path(folder)))
        learner = DictionaryLearner(session, ours, "objective", settings.objective)
        learner.infer(batches[0][0][:2], batches[0][1][:2])
        loop = Loop(
            session,
            "operators",
            n_steps,
            modules={"operators": ours},
            optimisers={"operators": learner.optimiser},
            steps_per_epoch=n_steps,
            report_every=_REPORT_EVERY,
        )
        turns = iter(progress(batches, "our batch, then theirs"))
        begin = time.perf_counter()
        for step in loop:  # what the loop does between two steps is our time too
            next(turns)
            learner.step(loop, *batches[step], rate)
            middle = time.perf_counter()
            _authors_step(authors, adam, batches[step], problem.sparsity_weight, decay)
            our_seconds.append(middle - begin)
            begin = time.perf_counter()
            their_seconds.append(begin - middle)
        next(turns, None)  # lets the bar see its end
    return our_seconds, their_seconds


def _authors_step(
    operators: TransportOperators,
    adam: torch.optim.Adam,
    batch: _Batch,
    weight: float,
    decay: float,
) -> None:
    """Take a step of the authors' algorithm: their iteration for c, autograd and Adam for Psi."""
    (z0, z1), dictionary = batch, operators.operators
    c = infer_coefficients(
        dictionary.detach(), z0, z1, sparsity_weight=weight, solver=CONTENDERS[REFERENCE]
    ).coefficients
    missed = z1 - transport(dictionary, c, z0, method="dense")
    loss = missed.square().sum(1).mean() / 2 + operator_penalty(dictionary, decay)
    adam.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    adam.step()


def _objective(problem: LearnedProblem, operators: TransportOperators, pairs: _Batch) -> float:
    """Measure a dictionary by the mean [OBJECTIVE] of pairs it has not been trained on."""
    found = infer_coefficients(
        operators.operators.detach(), *pairs, sparsity_weight=problem.sparsity_weight
    )
    return float(found.objective.mean())
