import itertools

import pytest
import torch

from transop.training import loop as loop_module
from transop.training.loop import Loop, TrainingFailure
from transop.training.session import Deadline
from transop.training.steps import steps_in


def start(session, n_steps=20, *, spoil_at=(), **options):
    """A one-parameter problem with randomness; returns the loop, the weight and a runner."""
    module = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(module.weight)
    optimiser = torch.optim.Adam(module.parameters(), 0.1)
    noise = session.generator("toy")
    loop = Loop(
        session,
        "toy",
        n_steps,
        modules={"module": module},
        optimisers={"optimiser": optimiser},
        generators={"noise": noise},
        steps_per_epoch=5,
        report_every=4,
        snapshot_every=3,
        **options,
    )
    spoiled = list(spoil_at)

    def run(stop_before=None):
        for step in loop:
            if step == stop_before:
                session.stop_requested = True
            target = torch.rand(1, 1, generator=noise)
            loss = (module(torch.ones(1, 1)) - target).square().sum()
            if step in spoiled:
                spoiled.remove(step)
                loss = loss * float("nan")
            if not loop.check(loss):
                continue
            optimiser.zero_grad()
            loss.backward()
            optimiser.param_groups[0]["lr"] = 0.1 * loop.step_factor
            optimiser.step()
            loop.memory["seen"] = loop.memory.get("seen", 0) + 1
            loop.record(loss=loss.item())

    return loop, module, run


@pytest.mark.parametrize("stop_before", [0, 7, 8, 19])
def test_an_interrupted_loop_ends_with_the_same_bits(make_session, stop_before):
    _, whole, run = start(make_session(name="whole"))
    run()
    first = start(make_session(name="cut"))
    with pytest.raises(KeyboardInterrupt):
        first[2](stop_before)
    loop, resumed, run = start(make_session(name="cut"))
    run()
    assert torch.equal(whole.weight, resumed.weight)
    assert loop.memory["seen"] == 20


def test_an_interrupted_loop_ends_with_the_same_metrics(make_session):
    sessions = [make_session(name="whole"), make_session(name="cut")]
    start(sessions[0])[2]()
    with pytest.raises(KeyboardInterrupt):
        start(sessions[1])[2](9)
    start(make_session(name="cut"))[2]()
    shown = [
        [(r["step"], r["loss"]) for r in session.folder.read_metrics()] for session in sessions
    ]
    assert shown[0] == shown[1]
    assert [step for step, _ in shown[0]] == [4, 8, 12, 16, 20]


def test_checkpoints_are_written_as_often_as_asked(make_session):
    session = make_session("runtime.checkpoint_seconds=0")
    written = []
    save = session.folder.save_checkpoint
    object.__setattr__(
        session.folder,
        "save_checkpoint",
        lambda p, s, state: (written.append(s), save(p, s, state)),
    )
    start(session)[2]()
    assert written == list(range(1, 21))


def test_a_step_that_is_not_finite_is_taken_back_and_halved(make_session):
    session = make_session()
    loop, module, run = start(session, spoil_at=[10])
    run()
    assert loop.step_factor == 0.5
    assert torch.isfinite(module.weight).all()
    assert loop.memory["seen"] == 20
    findings = [r["finding"] for r in session.folder.read_metrics() if "finding" in r]
    assert len(findings) == 1
    assert "not finite at step 10; went back to step 9" in findings[0]


def test_a_fourth_failure_stops_with_the_advice(make_session):
    session = make_session()
    _, _, run = start(session, spoil_at=[5, 5, 5, 5], explain=lambda: "turn the big knob")
    with pytest.raises(TrainingFailure, match=r"step 5.*3 times did not help; turn the big knob"):
        run()
    assert "turn the big knob" in session.folder.read_metrics()[-1]["finding"]


def test_halvings_survive_an_interruption(make_session):
    _, whole, run = start(make_session(name="whole"), spoil_at=[4])
    run()
    with pytest.raises(KeyboardInterrupt):
        start(make_session(name="cut"), spoil_at=[4])[2](10)
    loop, resumed, run = start(make_session(name="cut"))
    run()
    assert loop.step_factor == 0.5
    assert torch.equal(whole.weight, resumed.weight)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(make_session):
    session = make_session("runtime.checkpoint_seconds=0")
    _, whole, run = start(session)
    run()
    newest = sorted(session.folder.checkpoints.iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    _, resumed, run = start(make_session())
    run()
    assert torch.equal(whole.weight, resumed.weight)


def test_progress_sees_every_step_once_even_after_a_rollback(make_session):
    session = make_session()
    seen = []

    def progress(items, description, total=None):
        assert (description, total) == ("toy", 20)
        for item in items:
            seen.append(item)
            yield item
        seen.append("end")

    session.progress = progress
    start(session, spoil_at=[10])[2]()
    assert seen == [*range(20), "end"]


def test_epochs_leave_out_a_last_partial_batch():
    assert steps_in(2.0, 105, 10) == (10, 20)
    assert steps_in(0.5, 100, 10) == (10, 5)
    assert steps_in(1.0, 3, 10) == (1, 1)
    assert steps_in(0.0, 100, 10) == (10, 0)


def test_half_precision_computes_in_bfloat16_and_gives_single_precision(make_session):
    seen = []

    class Watched(torch.nn.Linear):
        def forward(self, rows):
            found = super().forward(rows)
            seen.append(found.dtype)
            return found, None

    module = Watched(3, 2)
    forward = make_session("runtime.precision=bf16-mixed").set_up(module)
    found, nothing = forward(torch.ones(4, 3))
    assert (seen, found.dtype, nothing) == ([torch.bfloat16], torch.float32, None)
    found.sum().backward()
    assert module.weight.grad.dtype == torch.float32
    assert make_session(name="single").set_up(module) is module


@pytest.mark.parametrize(("features", "mixed"), [({"avx512_bf16": True}, True), ({}, False)])
def test_automatic_precision_is_mixed_where_the_processor_has_bfloat16(
    make_session, monkeypatch, features, mixed
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    module = torch.nn.Linear(3, 2)
    forward = make_session("runtime.precision=auto").set_up(module)
    assert (forward is not module) == mixed


def test_automatic_precision_is_single_where_torch_cannot_tell(make_session, monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    module = torch.nn.Linear(3, 2)
    assert make_session("runtime.precision=auto").set_up(module) is module


class Clock:
    """A clock that goes on by so many seconds with every step."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds = 1_000.0, seconds
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.now)

    def follow(self, loop):
        rates = []
        optimiser = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
        for _ in loop:
            rates.append(loop.rate(optimiser, 1.0))
            self.now += self.seconds
        return rates


def timed_loop(session, n_steps, most_epochs=1_000.0, after=100.0):
    deadline = Deadline(loop_module.time.monotonic() + after, most_epochs)
    session.deadlines = lambda phase: deadline
    loop, _, _ = start(session, n_steps)
    loop._settings = type("Section", (), {"schedule": "one-cycle", "learning_rate": 1.0})
    return loop


@pytest.mark.parametrize("seconds", [0.25, 0.5, 1.0, 4.0])
def test_a_phase_with_a_deadline_ends_in_time_whatever_the_pace(make_session, monkeypatch, seconds):
    clock = Clock(monkeypatch, seconds)
    loop = timed_loop(make_session(), n_steps=100)  # planned with one second for a step
    rates = clock.follow(loop)
    assert abs(clock.now - 1_100) <= 5
    assert rates[-1] < 0.02, "the schedule has not come to its end"
    assert max(rates) > 0.95
    jumps = [abs(b - a) for a, b in itertools.pairwise(rates)]
    assert max(jumps[len(jumps) // 4 :]) < 0.25


def test_a_fast_machine_stops_where_more_epochs_are_useless(make_session, monkeypatch):
    clock = Clock(monkeypatch, 0.1)
    loop = timed_loop(make_session(), n_steps=100, most_epochs=30)  # of five steps
    assert len(clock.follow(loop)) == 150


def test_a_slower_pace_halfway_shortens_the_rest(make_session, monkeypatch):
    clock = Clock(monkeypatch, 1.0)
    loop = timed_loop(make_session(), n_steps=100)
    for step in loop:
        clock.seconds = 1.0 if step < 50 else 3.0
        clock.now += clock.seconds
    assert abs(clock.now - 1_100) <= 10
    assert loop.step < 75


def test_a_new_length_survives_a_checkpoint(make_session, monkeypatch):
    clock = Clock(monkeypatch, 2.0)
    loop = timed_loop(make_session(name="cut"), n_steps=100)
    steps = iter(loop)
    for _ in range(21):
        next(steps)
        clock.now += 2.0
    loop.save()
    changed = loop.n_steps
    assert changed < 60
    again = timed_loop(make_session(name="cut"), n_steps=100)
    next(iter(again))
    assert again.step == 20
    assert again.n_steps == changed


def test_without_a_deadline_the_clock_changes_nothing(make_session, monkeypatch):
    clock = Clock(monkeypatch, 50.0)
    loop, _, _ = start(make_session(), 30)
    loop._settings = type("Section", (), {"schedule": "cosine", "learning_rate": 1.0})
    assert len(clock.follow(loop)) == 30
