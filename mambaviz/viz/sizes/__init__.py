"""Figures and tables of the Sizes page: a `Report` in, a Plotly figure or HTML out."""
