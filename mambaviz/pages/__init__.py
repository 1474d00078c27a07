"""Streamlit pages, thin: they read the page state, call `mambaviz.viz`, place what comes back."""
