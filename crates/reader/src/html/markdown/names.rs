//! Elements by what they do to a line.

use html5ever::{LocalName, local_name};

/// Whether the element stands for a mark around its text.
pub(super) fn is_span(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("a")
            | local_name!("b")
            | local_name!("strong")
            | local_name!("i")
            | local_name!("em")
            | local_name!("cite")
            | local_name!("dfn")
            | local_name!("s")
            | local_name!("del")
            | local_name!("strike")
            | local_name!("code")
            | local_name!("tt")
            | local_name!("kbd")
            | local_name!("samp")
            | local_name!("var")
            | local_name!("sup")
            | local_name!("sub")
    )
}

/// Whether the element begins and ends a block.
pub(super) fn is_block(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("address")
            | local_name!("article")
            | local_name!("aside")
            | local_name!("body")
            | local_name!("caption")
            | local_name!("center")
            | local_name!("details")
            | local_name!("dialog")
            | local_name!("div")
            | local_name!("fieldset")
            | local_name!("figcaption")
            | local_name!("figure")
            | local_name!("footer")
            | local_name!("form")
            | local_name!("header")
            | local_name!("hgroup")
            | local_name!("html")
            | local_name!("legend")
            | local_name!("main")
            | local_name!("nav")
            | local_name!("p")
            | local_name!("plaintext")
            | local_name!("search")
            | local_name!("section")
            | local_name!("frameset")
    )
}
