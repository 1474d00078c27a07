"""The sidebar of the Watch page: which scenario, its facts in short, where it is computed."""

from __future__ import annotations

from html import escape

import streamlit as st

from mambaviz.limits import MOST_RECORDING_MB
from mambaviz.pages import editor, export_menu, replaying, shell, state, try_out, widgets
from mambaviz.pages.runs import Run
from mambaviz.pages.state import BACKEND_CHOICES, BackendChoice, PageState
from mambaviz.scenario import PRESETS, AcceptanceRate, RequestPlan, Scenario, ScenarioError

OWN = "own"  # the entry of the preset list for a scenario that is none

BACKEND_LABELS: dict[BackendChoice, str] = {
    "auto": "auto",
    "cuda": "cuda, GPU",
    "interpreter": "interpreter, CPU",
    "reference": "reference, CPU",
}
BACKEND_HELP = """
What runs the kernels.

- **auto**: the best that this machine has, in the order below.
- **cuda**: Triton, compiled for the GPU.
- **interpreter**: the very same Triton kernels, run by Triton's interpreter on the CPU.
- **reference**: their plain PyTorch twins, for machines without Triton.

A process has either cuda or interpreter, from its start on; `MAMBAVIZ_BACKEND=interpreter make app`
asks for a certain one. The line below says where the run on screen was computed.
"""


def place(view: PageState, run: Run | None) -> None:
    with st.sidebar:
        with st.container(key="side-scenario"):
            _preset(view)
            st.html(f"<h4>Run</h4>{facts_table(view.scenario)}")
            st.html(f"<h4>Requests</h4>{requests_table(view.scenario)}")
            _scenario_buttons(view)
            try_out.buttons(run)
        with st.container(key="side-foot"):
            backend(view)
            left, right = st.columns(2, gap="xsmall")
            with left:
                shell.copy_link()
            with right:
                export_menu.place(run)
            st.html(foot(view.scenario, run))


# --------------------------------------------------------------------------------------
# Scenario
# --------------------------------------------------------------------------------------


def _preset(view: PageState) -> None:
    options = [*PRESETS] if view.preset_shown else [*PRESETS, OWN]
    names = {slug: preset.name for slug, preset in PRESETS.items()}
    widgets.stand("preset", view.preset_shown or OWN, view.scenario.name)
    st.selectbox(
        "Preset",
        options,
        key="preset",
        # Streamlit tells options apart by their label: an edited preset must not look like it.
        format_func=lambda slug: names.get(slug, f"{view.scenario.name} (own)"),
        on_change=_take_preset,
    )
    if view.scenario.story:
        own = "" if view.preset_shown else "<b>(own)</b> "
        st.html(f'<p class="mv-story">{own}{escape(view.scenario.story)}</p>')


def _take_preset() -> None:
    slug = widgets.choice("preset", PRESETS)
    if slug is not None:
        state.show(PRESETS[slug])


def facts(scenario: Scenario) -> list[tuple[str, str]]:
    """What a run is, in a line each; what is switched off is left out."""
    engine, layer = scenario.engine, scenario.layer
    window = layer.conv_kernel - 1
    kept = f"{window} + {engine.num_spec} = {window + engine.num_spec}"
    lines = [
        ("cache mode", engine.mode),
        ("block size", f"{engine.effective_block_size} tokens"),
        ("drafts per step", str(engine.num_spec)),
        ("conv kernel", f"{layer.conv_kernel} → window {window}"),
        ("conv rows kept", kept if engine.num_spec else str(window)),
        ("layout, dtype", f"{engine.layout}, {layer.cache_dtype}"),
        ("runner", engine.runner.upper()),
        ("layers", str(layer.num_layers)),
        ("blocks", f"{engine.num_blocks - 1} + null"),
    ]
    if engine.prefill_chunk_limit:
        lines.append(("chunk limit", f"{engine.prefill_chunk_limit} tokens"))
    if engine.num_mamba_groups > 1:
        lines.append(("Mamba groups", str(engine.num_mamba_groups)))
    if engine.attention_group:
        lines.append(("attention group", "yes"))
    if engine.replayssm_buffer_len:
        lines.append(("ReplaySSM ring", str(engine.replayssm_buffer_len)))
    if layer.states != "both":
        lines.append(("state tensors", f"{layer.states} only"))
    if scenario.events:
        lines.append(("events", str(len(scenario.events))))
    if scenario.edits:
        lines.append(("edited by hand", f"{len(scenario.edits)} numbers"))
    lines += [("fault", name) for name in scenario.faults]
    return lines


def facts_table(scenario: Scenario) -> str:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts(scenario)
    )
    return f'<dl class="mv-facts">{rows}</dl>'


def requests_table(scenario: Scenario) -> str:
    """Prompt length, tokens kept at each step in turn, and the arrival where it says something."""
    late = any(plan.arrive for plan in scenario.requests)
    head = "<th></th><th>prompt</th><th>accepted a step</th>" + ("<th>from</th>" if late else "")
    rows = "".join(
        f"<tr><td><b>{escape(plan.id)}</b></td><td>{plan.num_prompt_tokens}</td>"
        f"<td>{escape(accepted(plan, scenario.engine.num_spec))}</td>"
        + (f"<td>step {plan.arrive}</td>" if late else "")
        + "</tr>"
        for plan in scenario.requests
    )
    return f'<table class="mv-requests"><tr>{head}</tr>{rows}</table>'


def accepted(plan: RequestPlan, num_spec: int) -> str:
    """Accepted tokens per verification, the bonus token included as everywhere on the stage."""
    if num_spec == 0 or plan.drafts == 0:
        return "1"
    if isinstance(plan.accept, AcceptanceRate):
        return f"{plan.accept.rate:.0%} of drafts"
    if plan.accept == "all":
        return "all"
    if plan.accept == "none":
        return "1"
    return ", ".join(str(1 + count) for count in plan.accept)


def _scenario_buttons(view: PageState) -> None:
    st.button("Edit scenario", on_click=editor.open_with, args=(view.scenario,), width="stretch")
    left, right = st.columns(2, gap="xsmall")
    with left, st.popover("Open JSON", width="stretch"):
        st.file_uploader(
            "A scenario (.json), or a recording of your own engine (.jsonl)",
            max_upload_size=MOST_RECORDING_MB,  # a scenario has a few hundred bytes
            key=f"open {st.session_state.get('opened', 0)}",
            on_change=_open_json,
        )
        replaying.choice(None)
    right.download_button(
        "Save JSON",
        lambda: view.scenario.model_dump_json(indent=2, exclude_defaults=True),
        file_name="scenario.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
    )


def _open_json() -> None:
    """Callback: look at the scenario of a file, or say what is wrong with it and change nothing."""
    taken = st.session_state.get("opened", 0)
    file = st.session_state.get(f"open {taken}")
    if file is None:
        return
    st.session_state["opened"] = taken + 1  # an empty uploader for the next file
    if not file.name.endswith(".json"):
        replaying.take(file.name, file.getvalue())
        return
    try:
        state.show(editor.read_upload(file.getvalue()))
    except ScenarioError as error:
        state.say(f"{file.name} was not opened: {error}")


# --------------------------------------------------------------------------------------
# Back end, link, export
# --------------------------------------------------------------------------------------


def backend(view: PageState) -> None:
    widgets.stand("backend", view.backend)
    st.selectbox(
        "Back end",
        BACKEND_CHOICES,
        key="backend",
        format_func=lambda choice: BACKEND_LABELS[choice],
        help=BACKEND_HELP,
        on_change=_take_backend,
    )


def _take_backend() -> None:
    choice = widgets.choice("backend", BACKEND_CHOICES)
    if choice is not None:
        state.update(backend=choice)


def foot(scenario: Scenario, run: Run | None) -> str:
    origin = run.origin if run and run.trace.scenario_hash == scenario.content_hash else "not run"
    return (
        f'<p class="mv-foot"><span>run {scenario.content_hash[:7]}</span>'
        f"<span>{escape(origin)}</span></p>"
    )
