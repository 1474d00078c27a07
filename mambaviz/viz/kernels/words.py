"""Headline and sentences about one launch, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import MOVED, Damage, LaunchRecord


def headline(record: LaunchRecord, damage: Damage | None = None) -> str:
    """One sentence: what became of the programs, or of the mistakes."""
    if record.unexplained:
        return f"This launch went wrong: {_count(record.unexplained, 'byte')} came out otherwise."
    if damage is not None:
        return _damage_headline(record, damage)
    total = len(record.programs)
    if record.inputs.kernel == "preprocess":
        lanes = len(record.notes)
        gone = sum(note == "no slot" for note in record.notes)
        got = f"{lanes - gone} {_plural(lanes - gone, 'request')}"
        left = f", {_count(gone, 'lane')} without a slot touched nothing" if gone else ""
        return f"One program of {_count(lanes, 'lane')}: {got} got a column{left}."
    moved = sum(one.outcome in MOVED for one in record.programs)
    stopped = sum(one.outcome == "guarded" for one in record.programs)
    idle = total - moved - stopped
    parts = [f"{moved} moved bytes" if moved else ""]
    parts += [f"{idle} had nothing to move" if idle else ""]
    if record.inputs.kernel == "memcpy":
        parts += [f"{stopped} {_was(stopped)} left out by a guard" if stopped else ""]
        return f"{total} possible copies: {', '.join(filter(None, parts))}."
    parts += [f"{stopped} {_was(stopped)} stopped by a guard" if stopped else ""]
    return f"{total} programs: {', '.join(filter(None, parts))}."


def _damage_headline(record: LaunchRecord, damage: Damage) -> str:
    labels = " and ".join(MISTAKES[name].label for name in damage.mistakes)
    if damage.harmless:
        return f"Built wrong ({labels}), and these inputs do not show it."
    wrong = len(damage.programs)
    caught = list(dict.fromkeys(one.invariant for one in damage.broken))
    told = f"{' and '.join(_joined(caught))} {'catch' if len(caught) > 1 else 'catches'} it"
    if not wrong:
        return f"Built wrong ({labels}): {told}."
    return (
        f"Built wrong ({labels}): {wrong} of {len(record.programs)} programs leave wrong bytes, "
        f"and {told}."
    )


def _joined(names: Sequence[str]) -> list[str]:
    """Commas up to the last but one."""
    return [", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names)


def sentences(record: LaunchRecord, damage: Damage | None = None) -> list[str]:
    """What there is to say below the headline."""
    if damage is not None and not record.unexplained:
        return list(_damage_sentences(damage))
    return list(_sentences(record))


def _damage_sentences(damage: Damage) -> Iterator[str]:
    for name in damage.mistakes:
        yield f"{MISTAKES[name].what} {MISTAKES[name].how}"


def _sentences(record: LaunchRecord) -> Iterator[str]:
    if record.unexplained:
        yield "The plain twin of the kernel decides other than what the launch left behind."
    if record.inputs.kernel == "preprocess":
        yield "No bytes of the caches move; four arrays by slot are written."
        return
    bytes_ = record.num_bytes
    yield f"{bytes_} bytes read and {bytes_} written." if bytes_ else "No byte is read or written."
    yield from _split(record)
    yield from _resets(record)


def _split(record: LaunchRecord) -> Iterator[str]:
    """Requests of which one kind of state moved and the other was stopped."""
    names = []
    for row, request in enumerate(record.inputs.rows):
        mine = [one for one in record.programs if one.row == row]
        kinds = {record.states[one.state].kind for one in mine if one.outcome in MOVED}
        stopped = {record.states[one.state].kind for one in mine if one.outcome == "guarded"}
        if kinds == {"conv"} and stopped == {"temporal"}:
            names.append(request.request)
    if not names:
        return
    yield (
        f"{_names(names)}: the conv rows still move while the temporal copies are skipped, since "
        "the two read different columns."
    )


def _resets(record: LaunchRecord) -> Iterator[str]:
    reset = []
    for counts in record.counts:
        for row, request in enumerate(record.inputs.rows):
            slot = record.inputs.slot_of(row)
            if slot >= 0 and counts.before[slot] != counts.after[slot]:
                reset.append(request.request)
    if reset:
        one = len(reset) == 1
        yield (
            f"The accepted count{'' if one else 's'} of {_names(reset)} "
            f"{'becomes' if one else 'become'} 1."
        )


def selected(record: LaunchRecord, row: int, state: int) -> str:
    """Which program it is, as a title."""
    name, column = record.inputs.rows[row].request, record.columns[state]
    if record.inputs.kernel == "preprocess":
        return f"Request {name}, {column}"
    found = record.states[state]
    return f"Request {name}, layer {found.layer}, {found.kind}"


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {_plural(number, noun)}"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
