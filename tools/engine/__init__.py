"""A real engine with tiny random-weight models: driven, recorded, and broken on purpose.

`environment` makes environments of their own for it, `cases` says what to run, `drive` runs it
inside such an environment, and `examples` records what the Watch page offers.
"""
