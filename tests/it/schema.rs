//! The JSON's fields and the README's table of them are the same.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::reported::{Reported, count};

const README: &str = include_str!("../../README.md");

/// The section of the README that tells of the fields.
fn section() -> &'static str {
    let (_, behind) = README.split_once("\n### The JSON, field by field\n").expect("the section is there");
    behind.split("\n## ").next().unwrap_or(behind)
}

/// The fields that the table's first column names, in code; and that every row has a unit and a meaning.
fn documented() -> BTreeSet<String> {
    let rows: Vec<Vec<&str>> = section()
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows[0], ["field", "unit", "meaning"]);
    let mut fields = BTreeSet::new();
    for row in &rows[2..] {
        assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        for field in row[0].split('`').skip(1).step_by(2) {
            assert!(fields.insert(field.to_owned()), "{field} is there twice");
        }
    }
    fields
}

/// The paths to all that is no object and no list.
fn flatten(value: &Value, path: &str, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(value, &path, fields);
            }
        }
        Value::Array(list) => {
            assert!(!list.is_empty(), "{path} is empty, so nothing can be seen of it");
            list.iter().for_each(|value| flatten(value, &format!("{path}[]"), fields));
        }
        _ => drop(fields.insert(path.to_owned())),
    }
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_there() {
    let documented = documented();
    for args in [&["--workers", "1"][..], &["--workers", "2"]] {
        let mut server = Reported::fixtures(args);
        // Without and with figures: a field that has no value is null, and not missing.
        let empty = server.on_demand();
        server.server.connect().get("/hello.txt").expect("an answer");
        let full = server.end();
        for report in [empty, full] {
            let mut fields = BTreeSet::new();
            flatten(&report, "", &mut fields);
            let untold: Vec<_> = fields.difference(&documented).collect();
            let missing: Vec<_> = documented.difference(&fields).collect();
            assert!(
                untold.is_empty() && missing.is_empty(),
                "not in README.md: {untold:?}; not there: {missing:?}"
            );
            let version = format!("schema version {}", count(&report, "schema"));
            assert!(section().to_lowercase().contains(&version), "README.md has another {version}");
        }
    }
}
