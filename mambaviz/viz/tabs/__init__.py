"""What stands in the tabs below the stage, as HTML: block lives, provenance, truth, copies, bytes.

Every function takes finished values of the model and returns text; whatever a person could have
typed is escaped here. ``tabs.js`` turns a click on ``data-go`` into a place, on ``data-block``
into a block.
"""
