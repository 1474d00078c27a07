"""Entry of ``streamlit run app.py``: the list of pages; they share `mambaviz.pages.state`."""

import streamlit as st

from mambaviz.pages import compare, metadata, state, watch
from mambaviz.pages.assets import LOGO

st.set_page_config(
    page_title="mambaviz", page_icon=str(LOGO), layout="wide", initial_sidebar_state=224
)
page = st.navigation(
    [
        st.Page(watch.page, title="Watch", default=True),
        st.Page(metadata.page, title="Metadata", url_path="metadata"),
        st.Page(compare.page, title="Compare", url_path="compare"),
    ],
    position="top",
)
state.enter(page.title)
page.run()
