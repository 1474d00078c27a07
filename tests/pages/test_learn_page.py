"""The Learn page's wiring: link, progress, score, the question's store and the ways out agree."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from mambaviz import tour
from mambaviz.pages import learn, learn_sidebar
from mambaviz.pages.asking import QuestionJob, QuestionStore, Say
from mambaviz.pages.learn_component import LearnPlace, read_place
from mambaviz.pages.learn_state import CHOICES, LETTERS, MIXED, LearnView, Score
from mambaviz.pages.state import BackendChoice, PageState, from_link, only_elsewhere, to_link
from mambaviz.questions import TOPICS, Asked, asked
from mambaviz.trace import PHASES
from mambaviz.viz.learn.payload import moment_before
from tests.project.sources import ROOT

SECONDS = 60


def script() -> None:
    from mambaviz.pages import learn, state

    state.enter("Learn")
    learn.page()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=SECONDS)


def sent(app: AppTest) -> str:
    return " ".join(str(element.proto) for element in app.get("bidi_component"))


# ---- the link --------------------------------------------------------------------------------

numbers = st.integers(0, 9)
scores = st.dictionaries(st.sampled_from(list(TOPICS)), st.tuples(numbers, numbers)).map(
    lambda found: tuple(
        Score(topic=topic, right=min(found[topic]), asked=max(*found[topic], 1))
        for topic in TOPICS
        if topic in found
    )
)
views = st.builds(
    lambda stop, moved, seen, scores: LearnView(stop=stop, moved=moved, seen=seen, scores=scores),
    st.sampled_from(tour.NAMES),
    st.booleans(),
    st.sets(st.sampled_from(tour.NAMES)).map(
        lambda seen: tuple(name for name in tour.NAMES if name in seen)
    ),
    scores,
)
questions = st.tuples(
    st.sampled_from(CHOICES), st.integers(0, 999_999), st.none() | st.integers(0, len(LETTERS) - 1)
)


@given(views, st.none() | questions)
def test_a_link_gives_its_view_back(
    view: LearnView, question: tuple[str, int, int | None] | None
) -> None:
    if question is not None:
        view = view.changed(topic=question[0], seed=question[1], chosen=question[2])
    state = PageState(learn=view)
    assert from_link(to_link(state)) == (state, "")


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"stop": "nowhere"}, "a stop “nowhere” of the tour"),
        ({"moved": "perhaps"}, "neither yes nor no"),
        ({"seen": "block.nowhere"}, "no stop counts as seen"),
        ({"topic": "weather", "seed": "5"}, "the tour is shown"),
        ({"topic": "bias", "seed": "²"}, "another question is drawn"),
        ({"topic": "bias", "seed": "1234567"}, "another question is drawn"),
        ({"topic": "bias", "seed": "1", "chosen": "ab"}, "still open"),
        ({"score": "bias.2.1"}, "starts anew"),
        ({"score": "weather.1.2"}, "starts anew"),
        ({"score": "bias.1"}, "starts anew"),
        ({"score": f"bias.1.{'9' * 5000}"}, "starts anew"),
    ],
)
def test_what_makes_no_sense_gets_its_default(params: dict[str, str], says: str) -> None:
    state, problem = from_link(params)
    assert says in problem
    topic = "bias" if params.get("topic") == "bias" else None
    seed = 1 if params.get("seed") == "1" else None
    assert state.learn == LearnView(topic=topic, seed=seed)


def test_a_link_of_another_page_leaves_the_progress_out() -> None:
    assert {"stop", "seen", "score", "topic"} <= set(only_elsewhere("Watch"))
    assert "stop" not in only_elsewhere("Learn")


# ---- progress and score ----------------------------------------------------------------------


def test_only_the_first_choice_counts() -> None:
    view = LearnView().asking("bias", 3).answered(1, right=False)
    assert view.answered(2, right=True) == view
    again = view.asking("bias", 4).answered(0, right=True).asking("hits", 1).answered(0, right=True)
    assert (again.score(), again.score("bias"), again.score("modes")) == ((2, 3), (1, 2), (0, 0))
    assert learn.score_words(again, "bias") == "Score: 2 of 3 right; this topic 1 of 2"
    assert learn_sidebar.topic_score(again, "bias") == "1/2"
    assert learn_sidebar.topic_score(again, MIXED) == "2/3"
    assert learn_sidebar.topic_score(again, "modes") == "–"


def test_mixed_questions_are_of_every_topic_and_the_seed_decides() -> None:
    view = LearnView()
    found = [view.asking(MIXED, seed).asked_topic for seed in range(200)]
    assert set(found) == set(TOPICS)
    assert found[7] == view.asking(MIXED, 7).asked_topic
    assert view.asking("bias", 7).asked_topic == "bias"


def test_stops_are_seen_in_the_order_of_the_tour() -> None:
    view = LearnView().at("null", moved=True).at("block", moved=False)
    assert view.seen == ("block", "null")
    assert not view.moved


@pytest.mark.parametrize(
    "said",
    [
        None,
        {"stop": True, "moved": True, "chosen": None, "seen": []},
        {"stop": len(tour.NAMES), "moved": True, "chosen": None, "seen": []},
        {"stop": 0, "moved": 1, "chosen": None, "seen": []},
        {"stop": 0, "moved": True, "chosen": 4, "seen": []},
        {"stop": 0, "moved": True, "chosen": None},
        {"stop": 0, "moved": True, "chosen": None, "seen": ["nowhere"]},
    ],
)
def test_nonsense_from_the_browser_is_no_place(said: object) -> None:
    assert read_place(said) is None
    good = {"stop": 2, "moved": True, "chosen": 3, "seen": ["bias"]}
    assert read_place(good) == LearnPlace(2, True, 3, ("bias",))


# ---- questions -------------------------------------------------------------------------------


def finished(store: QuestionStore, topic: str, seed: int) -> QuestionJob:
    job = store.ask(store.job(topic, seed, "reference"), "one")
    assert job.ended.wait(SECONDS)
    return job


def test_a_question_comes_with_its_run() -> None:
    store = QuestionStore()
    job = finished(store, "bias", 5)
    assert job.status == "done"
    assert job.value is not None
    assert job.value.run.trace.scenario_hash == job.value.question.scenario.content_hash
    assert finished(store, "bias", 5) is job
    assert job.value.question == asked("bias", 5).question


class Enough(Exception):  # noqa: N818  # no error: a wish
    pass


def test_the_search_for_a_question_can_be_ended_at_every_step() -> None:
    heard: list[str] = []

    def say(message: str) -> None:
        heard.append(message)
        if len(heard) == 3:
            raise Enough

    with pytest.raises(Enough):
        asked("bias", 5, progress=say)
    assert heard == ["drawing scenario 1"] * 3


@pytest.mark.parametrize("topic", TOPICS)
def test_the_moment_before_does_not_show_the_answer(topic: str) -> None:
    found = asked(topic, 2)
    question, trace = found.question, found.trace
    before = moment_before(question)
    at = (before.step, PHASES.index(before.phase))
    assert at < (question.step, PHASES.index(question.phase))
    if topic == "hits":  # not even its tokens are marked as reused
        assert question.request not in trace.tables_after(before.step, before.phase).rows
    if topic == "forward":
        changed = {change.block for change in trace.steps[question.step].phase("forward").changes}
        assert int(question.right.removeprefix("block ")) in changed


# ---- the page --------------------------------------------------------------------------------


def test_the_first_stop_is_there_at_once(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert not app.warning
    assert dict(app.query_params) == {}
    assert len(app.radio[0].options) == len(tour.STOPS)
    assert "One block holds the whole past" in sent(app)


def test_a_stop_from_the_list_is_a_link(app: AppTest) -> None:
    app.run()
    app.radio[0].set_value("bias").run()
    assert not app.exception
    assert dict(app.query_params) == {"stop": "bias", "seen": "bias"}


def test_a_bad_link_says_so_once(app: AppTest) -> None:
    app.query_params["stop"] = "nowhere"
    app.run()
    assert not app.exception
    assert len(app.warning) == 1
    assert app.radio[0].value == tour.NAMES[0]


def test_a_question_is_on_its_way_and_then_there(app: AppTest) -> None:
    app.query_params.update({"topic": "counts", "seed": "3", "backend": "reference"})
    app.run()
    assert not app.exception
    deadline = time.monotonic() + SECONDS
    while "with its" not in sent(app) and '\\"choices\\"' not in sent(app):
        assert time.monotonic() < deadline
        time.sleep(0.2)
        app.run()
    assert app.radio[0].value == "counts"
    assert dict(app.query_params)["seed"] == "3"


def test_a_question_is_stopped_and_asked_after_all(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def ask(topic: str, seed: int, backend: BackendChoice, say: Say) -> Asked:
        begun.set()
        assert gate.wait(SECONDS)
        say("drawing scenario 1")
        return asked(topic, seed)

    store = QuestionStore(ask)
    monkeypatch.setattr(learn, "question_store", lambda: store)
    app.query_params.update({"topic": "counts", "seed": "3", "backend": "reference"})
    app.run()
    assert begun.wait(SECONDS)
    assert [info.value for info in app.info] == ["Computing a question: starting."]
    job = store.known(store.job("counts", 3, "reference"))
    assert job is not None
    app.button("ask-stop").click().run()
    assert [info.value for info in app.info] == ["This question was stopped."]
    assert "or take the next question." in sent(app)
    gate.set()
    assert job.ended.wait(SECONDS)
    assert job.status == "stopped"
    app.button("ask-it").click().run()
    again = store.known(store.job("counts", 3, "reference"))
    assert again is not None
    assert again.ended.wait(SECONDS)
    app.run()
    assert not app.info
    assert '\\"choices\\"' in sent(app)


def test_the_tour_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from mambaviz.pages import learn\n"
        "learn.tour_text()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
