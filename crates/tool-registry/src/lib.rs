//! NPCs, Players and Grants.
