//! Runs a command as subreaper and kills its whole tree.
