//! The fixtures say of themselves what is true.

use std::fs;

use crate::server::{Server, fixtures};

#[test]
fn every_length_in_data_json_is_that_of_the_file() {
    let data = fs::read_to_string(fixtures().join("data.json")).expect("a fixture");
    let files = data.split_once("\"files\"").expect("a list of files").1;
    let mut count = 0;
    for (name, len) in files.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once("\": ")) {
        let name = percent_encoding::percent_decode_str(name.trim_start_matches('"')).decode_utf8();
        let path = fixtures().join(&*name.expect("text"));
        assert_eq!(fs::metadata(&path).expect("a fixture").len().to_string(), len, "{}", path.display());
        count += 1;
    }
    assert!(count >= 8, "{count} files in {data}");
}

#[test]
fn the_files_are_what_tests_and_benchmarks_take_them_for() {
    let read = |name| fs::read_to_string(fixtures().join(name)).expect("a fixture");
    assert_eq!(read("0k.txt"), "");
    assert_eq!(read("hello.txt"), "Hello World\n");
    let lipsum = read("lipsum.html");
    assert_eq!((lipsum.len(), lipsum.matches("<p>").count()), (33792, 50));
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let server = Server::fixtures();
    let mut client = server.connect();
    for page in ["/", "/docs/"] {
        let html = client.get(page).expect("an answer").text().to_owned();
        let after = |mark: &'static str| {
            html.split(mark).skip(1).map(|rest| rest.split('"').next().unwrap_or_default())
        };
        let mut count = 0;
        for link in after("href=\"").chain(after("src=\"")) {
            let target = match link.strip_prefix("../") {
                Some(link) => format!("/{link}"),
                None => format!("{page}{link}"),
            };
            let status = client.get(&target).expect("an answer").status();
            assert!(status == 200 || (status == 301 && link == "docs"), "{target}: {status}");
            count += 1;
        }
        assert!(count >= 3, "{count} links in {page}");
    }
}
