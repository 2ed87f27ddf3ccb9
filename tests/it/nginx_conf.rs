//! The options that stand in the README for an nginx.conf, all together.

use std::fs;

use crate::privilege::NO_OTHER_USER;
use crate::server::{Server, command, skip, temporary};

#[test]
fn what_an_nginx_conf_said_can_be_said_at_once() {
    if !rustix::process::geteuid().is_root() {
        return skip("what_an_nginx_conf_said_can_be_said_at_once", NO_OTHER_USER);
    }
    let (tree, run) = (temporary(), temporary());
    for (name, text) in [
        ("index.htm", "index"),
        ("404.html", "not here"),
        ("50x.html", "not now"),
        ("page.css", "css"),
        ("page.css.gz", "gz"),
    ] {
        fs::write(tree.path().join(name), text).unwrap();
    }
    // Who becomes nobody opens its files as nobody.
    fs::set_permissions(run.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let (pid, log) = (run.path().join("pid"), run.path().join("log"));
    let mut command = command();
    command.args([
        "--user",
        "nobody",
        "--workers",
        "1",
        "--max-connections",
        "1024",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.arg("--pid-file").arg(&pid).arg("--log").arg(&log);
    command.args(["--default-type", "text/plain", "--mime", "htm=text/html", "--cache-entries", "1000"]);
    command.args(["--cache-idle", "3600s", "--cache-check", "1s", "--keep-alive", "65s"]);
    command.args([
        "--max-requests-per-connection",
        "100000",
        "--index",
        "index.html",
        "--index",
        "index.htm",
    ]);
    command.args(["--error-page", "404=/404.html", "--error-page", "500,502,503,504=/50x.html"]);
    command.args(["--list", "--precompressed", "--expires", "30d", "--header", "X-A: 1"]);
    command.args(["--header-for", "*.css", "X-A: css"]).arg(tree.path());
    let mut server = Server::spawn(&mut command);
    let mut client = server.connect();
    let index = client.get("/").unwrap();
    assert_eq!((index.text(), index.field("X-A")), ("index", Some("1")));
    assert_eq!(index.field("Cache-Control"), Some("max-age=2592000"));
    let css = client.request("GET", "/page.css", "Accept-Encoding: gzip\r\n").unwrap();
    assert_eq!(
        (css.text(), css.field("X-A"), css.field("Content-Encoding")),
        ("gz", Some("css"), Some("gzip"))
    );
    let none = client.get("/none").unwrap();
    assert_eq!((none.status(), none.text()), (404, "not here"));
    drop(client);
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), server.pid().to_string());
    server.signal("TERM");
    assert!(server.wait().success());
    let log = fs::read_to_string(&log).unwrap();
    let statuses: Vec<&str> = log.lines().map(|line| line.split(' ').nth(8).unwrap()).collect();
    assert_eq!(statuses, ["200", "200", "404"]);
    assert!(!pid.exists(), "it is gone with its process");
}
