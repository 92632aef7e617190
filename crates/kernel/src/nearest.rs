//! "Did you mean …?"

/// The candidate most like `word`, if one is like it at all (Jaro-Winkler of 0.7 or more).
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // A word of any length comes from outside; the similarity is quadratic in it.
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::jaro_winkler(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.7)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_strange_one_is_not() {
        let tools = ["current_time", "fetch_url"];
        assert_eq!(nearest("curent_time", tools), Some("current_time"));
        assert_eq!(nearest("fetchurl", tools), Some("fetch_url"));
        assert_eq!(nearest("xyzzy", tools), None);
        assert_eq!(nearest(&"a".repeat(1_000_000), tools), None);
    }
}
