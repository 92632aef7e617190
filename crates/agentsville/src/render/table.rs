//! Lists for people.

use std::fmt;

use unicode_width::UnicodeWidthStr as _;

/// Rows under headings. Cells are text from outside: they are stripped, and kept on one line.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// The widest cell; a longer one is cut. Ids (36) and most names fit.
const CELL_COLUMNS: usize = 60;

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = &'c str>) {
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// Whether there is nothing under the headings.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

fn cell(text: &str) -> String {
    let mut shown: String = kernel::strip_control(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if let Some((at, _)) = shown.char_indices().nth(CELL_COLUMNS) {
        shown.truncate(at);
        shown.push('…');
    }
    if shown.is_empty() {
        shown.push('-');
    }
    shown
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            for (column, cell) in row.iter().enumerate() {
                f.write_str(cell)?;
                if column + 1 < row.len() {
                    let padding = widths[column] - cell.width() + 2;
                    write!(f, "{:padding$}", "")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_cell_cannot_start_a_line_of_its_own() {
        let mut table = Table::new(&["NAME", "ID"]);
        table.row(["Keeper", "1"]);
        table.row(["村\nroot\u{1b}[2J", "2"]);
        table.row(["", "3"]);
        assert_eq!(
            table.to_string(),
            "NAME        ID\nKeeper      1\n村 root[2J  2\n-           3"
        );
    }
}
