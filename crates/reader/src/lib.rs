//! Bodies of pages to text that a model can read.
