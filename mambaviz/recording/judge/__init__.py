"""What contradicts the rules in a recording, from its indices alone (docs/recording.md).

Steps go in, in order; verdicts come out, with the numbers and the rule. What the rules say stands
in `mambaviz.recording.rules`, how each is looked at in the file of its noun:

    counts      accepted count, accepted range, computed tokens
    lists       ids, ownership of what a list holds, conservation
    rows        worker row
    pre_copy    column, copy, stale entry, and count reset before a forward
    post_copy   staged values, and copy and count reset after acceptance
    copies      source, destination, bias, and columns and null block of a copy
    metadata    metadata
    forward     running state, and columns and null block of a forward
    ownership   freed block, ownership of what is written
    registered  registered prefix, boundary state

What they look at:

    case        one step beside what is known from the steps before
    facts       the settings
    memory      what the steps before say about a request
    settled     where a step really starts that was scheduled before the one before it ended
    holders     whose lists a block stands in
    view        what the kernels find for a row: one group's metadata
    slots       which of it a forward reads and writes
    judge       the order in which all that happens

What was not recorded is unknown, and nothing unknown is ever held against a run. Nothing here
looks at a byte: whether the bytes that moved were the right ones, only a run of our own can say.
"""

from mambaviz.recording.judge.judge import Judge

__all__ = ["Judge"]
