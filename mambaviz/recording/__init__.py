"""Recordings of a serving engine (docs/recording.md): written, read, judged and shown as a trace.

    lines     the kinds of line, validated
    checked   what a line may hold as it likes, validated
    reader    a file, line by line, or one sentence on why not
    steps     lines gathered into steps, with whole lists
    judge     what contradicts the rules, from indices alone
    held      what every block holds by those rules
    writer    a run of our own as a recording
    told      steps and verdicts in words
    cut       a smaller recording out of a large one
    command   the command line

No module here imports torch.
"""
