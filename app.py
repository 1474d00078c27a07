"""Entry of ``streamlit run app.py``: the list of pages; they share `mambaviz.pages.state`."""

import streamlit as st

from mambaviz.pages import (
    about,
    compare,
    explorer,
    garbage,
    kernels,
    learn,
    metadata,
    own_address,
    reports,
    session_lock,
    sizes,
    state,
    watch,
    widgets,
)
from mambaviz.pages.assets import LOGO

garbage.set_modules_aside()
own_address.keep_unknown()
session_lock.share()

st.set_page_config(
    page_title="mambaviz", page_icon=str(LOGO), layout="wide", initial_sidebar_state=224
)
pages = [
    st.Page(watch.page, title="Watch", default=True),
    st.Page(metadata.page, title="Metadata", url_path="metadata"),
    st.Page(kernels.page, title="Kernels", url_path="kernels"),
    st.Page(compare.page, title="Compare", url_path="compare"),
    st.Page(reports.page, title="Reports", url_path="reports"),
    st.Page(explorer.page, title="Explorer", url_path="explorer"),
    st.Page(sizes.page, title="Sizes", url_path="sizes"),
    st.Page(learn.page, title="Learn", url_path="learn"),
    st.Page(about.page, title="About", url_path="about"),
]
state.carry()
page = st.navigation(pages, position="top")
wanted = state.page_wanted()
if wanted:
    st.switch_page(next(one for one in pages if one.title == wanted))
state.enter(page.title)
page.run()
widgets.drawn()
