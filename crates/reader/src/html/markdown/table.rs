//! Tables of data, and those that only put things side by side.

use std::collections::HashMap;

use html5ever::local_name;

use super::super::{
    content::Main,
    tree::{Key, NodeId, Step, Tree},
};

/// Columns of a table; what is further to the right joins the last one.
const COLUMNS: usize = 64;
/// Rows that a cell may span.
const ROW_SPAN: usize = 1_000;
/// Text of a cell that is said again in each row that it spans, so that rows can be read alone.
const REPEATED_BYTES: usize = 100;

/// Which tables are tables of data.
pub(super) fn data_tables(tree: &Tree, main: &Main) -> HashMap<NodeId, bool> {
    struct Open {
        node: NodeId,
        rows: usize,
        cells: usize,
        most_cells: usize,
        is_layout: bool,
    }
    let mut found = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if main.is_skipped(node) => walk.pass_over(node),
            Step::Enter(node) => {
                let Some(name) = tree.name(node) else {
                    continue;
                };
                match *name {
                    local_name!("table") => {
                        if let Some(outer) = open.last_mut() {
                            outer.is_layout = true;
                        }
                        open.push(Open {
                            node,
                            rows: 0,
                            cells: 0,
                            most_cells: 0,
                            is_layout: matches!(
                                tree.value(node, Key::Role),
                                Some("presentation" | "none")
                            ),
                        });
                    }
                    local_name!("tr") => {
                        if let Some(table) = open.last_mut() {
                            table.rows += 1;
                            table.cells = 0;
                        }
                    }
                    local_name!("td") | local_name!("th") => {
                        if let Some(table) = open.last_mut() {
                            table.cells += span(tree, node, Key::Colspan).min(2);
                            table.most_cells = table.most_cells.max(table.cells);
                        }
                    }
                    local_name!("h1")
                    | local_name!("h2")
                    | local_name!("h3")
                    | local_name!("pre")
                    | local_name!("blockquote")
                    | local_name!("hr")
                    | local_name!("form")
                    | local_name!("article")
                    | local_name!("section") => {
                        if let Some(table) = open.last_mut() {
                            table.is_layout = true;
                        }
                    }
                    _ => {}
                }
            }
            Step::Leave(node) => {
                if open.last().is_some_and(|table| table.node == node)
                    && let Some(table) = open.pop()
                {
                    let is_data = !table.is_layout && table.most_cells > 1 && table.rows > 1;
                    found.insert(node, is_data);
                }
            }
        }
    }
    found
}

fn span(tree: &Tree, cell: NodeId, key: Key) -> usize {
    tree.value(cell, key)
        .and_then(|span| span.trim().parse().ok())
        .unwrap_or(1)
        .max(1)
}

/// A cell that goes on in the rows below.
#[derive(Debug)]
struct Carried {
    rows: usize,
    text: String,
}

/// A table of data while its cells are read.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    /// By column.
    carried: Vec<Option<Carried>>,
    has_header: bool,
    /// Whether all cells of this row are headers.
    is_header: bool,
    /// Bytes that were said again, and those of cells that there are for a span.
    repeated: usize,
}

/// What a cell without text costs of the bound on text: it takes some of memory.
const EMPTY_CELL_BYTES: usize = 8;

impl Table {
    pub(super) fn begin_row(&mut self) {
        self.end_row();
        self.is_header = true;
    }

    pub(super) fn cell(&mut self, tree: &Tree, cell: NodeId, text: String) {
        self.fill();
        if !tree.is(cell, &local_name!("th")) && !text.is_empty() {
            self.is_header = false;
        }
        if self.row.len() >= COLUMNS {
            if let Some(last) = self.row.last_mut() {
                last.push(' ');
                last.push_str(&text);
            }
            return;
        }
        let columns = span(tree, cell, Key::Colspan).min(COLUMNS - self.row.len());
        let rows = span(tree, cell, Key::Rowspan).min(ROW_SPAN);
        if rows > 1 {
            let at = self.row.len();
            if self.carried.len() < at + columns {
                self.carried.resize_with(at + columns, || None);
            }
            for (index, carried) in self.carried[at..at + columns].iter_mut().enumerate() {
                let is_said = index == 0 && text.len() <= REPEATED_BYTES;
                *carried = Some(Carried {
                    rows: rows - 1,
                    text: if is_said { text.clone() } else { String::new() },
                });
            }
        }
        self.row.push(text);
        self.row.extend((1..columns).map(|_| String::new()));
        self.repeated += (columns - 1) * EMPTY_CELL_BYTES;
    }

    /// Takes the cell at which the text was cut.
    pub(super) fn last_cell(&mut self, text: String) {
        self.row.push(text);
    }

    /// Puts the cells from above that go on here.
    fn fill(&mut self) {
        while let Some(Some(carried)) = self.carried.get_mut(self.row.len()) {
            self.repeated += carried.text.len() + EMPTY_CELL_BYTES;
            self.row.push(carried.text.clone());
            carried.rows -= 1;
            if carried.rows == 0 {
                let at = self.row.len() - 1;
                self.carried[at] = None;
            }
        }
    }

    fn end_row(&mut self) {
        if self.row.is_empty() {
            return;
        }
        self.fill();
        let row = std::mem::take(&mut self.row);
        if row.iter().all(String::is_empty) {
            return;
        }
        if self.rows.is_empty() && self.is_header {
            self.has_header = true;
        }
        self.rows.push(row);
    }

    /// Bytes to spend on what the page did not spell out.
    pub(super) fn take_repeated(&mut self) -> usize {
        std::mem::take(&mut self.repeated)
    }

    /// The table as lines of GitHub Flavored Markdown (section 4.10). Columns with nothing in them are left out.
    pub(super) fn finish(mut self) -> String {
        self.end_row();
        let width = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let columns: Vec<usize> = (0..width)
            .filter(|&column| {
                self.rows
                    .iter()
                    .any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()))
            })
            .collect();
        if columns.is_empty() {
            return String::new();
        }
        let mut lines = String::new();
        let mut line = |row: &[String]| {
            lines.push('|');
            for &column in &columns {
                let cell = row.get(column).map_or("", String::as_str);
                lines.push(' ');
                lines.push_str(cell);
                lines.push_str(if cell.is_empty() { "|" } else { " |" });
            }
            lines.push('\n');
        };
        let (header, rows) = if self.has_header {
            self.rows.split_at(1)
        } else {
            self.rows.split_at(0)
        };
        line(header.first().map_or(&[], Vec::as_slice));
        let rule = vec!["---".to_owned(); width];
        line(&rule);
        for row in rows {
            line(row);
        }
        lines
    }
}
