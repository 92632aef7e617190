//! `guard check`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Stdio,
};

use serde_json::json;
use tempfile::TempDir;
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    netns::{Namespace, with_file_in_place_of},
};

use crate::support::{Person, Run, Served, finished};

#[test]
fn lines_are_answered_in_order_untrimmed_and_blank_ones_count() {
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            b"1.1.1.1\n\n 1.1.1.1\n169.254.169.254\nhttps://127.1/\nhttp://example.com/\nhttps://example.com/",
        )
        .ok();
    let said: Vec<_> = run
        .json_lines()
        .iter()
        .map(|line| (line["input"].clone(), line["verdict"].clone()))
        .collect();
    assert_eq!(
        said,
        [
            (json!("1.1.1.1"), json!("allow")),
            (json!(""), json!("error")),
            (json!(" 1.1.1.1"), json!("error")),
            (json!("169.254.169.254"), json!("block")),
            (json!("https://127.1/"), json!("block")),
            (json!("http://example.com/"), json!("block")),
            (json!("https://example.com/"), json!("allow")),
        ]
    );
}

/// A row's input, without its C-style escapes.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let (escape, after) = rest[at + 1..].split_at(1);
        let (character, used) = match escape {
            "t" => ('\t', 0),
            "n" => ('\n', 0),
            "r" => ('\r', 0),
            "x" => (char::from(u8::from_str_radix(&after[..2], 16).unwrap()), 2),
            "u" => {
                let end = after.find('}').unwrap();
                let code = u32::from_str_radix(&after[1..end], 16).unwrap();
                (char::from_u32(code).unwrap(), end + 1)
            }
            other => (other.chars().next().unwrap(), 0),
        };
        plain.push(character);
        rest = &after[used..];
    }
    plain + rest
}

#[test]
fn the_whole_corpus_of_addresses_and_urls_is_judged_line_by_line() {
    let corpus = [
        include_str!("../../../outbound/tests/it/guard.tsv"),
        include_str!("../../../outbound/tests/it/more.tsv"),
    ];
    let rows: Vec<(String, &str)> = corpus
        .iter()
        .flat_map(|corpus| corpus.lines())
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let (input, kind, expected) = (columns.next()?, columns.next()?, columns.next()?);
            // A line cannot hold a newline.
            let judged = matches!(kind, "ip" | "url") && !unescaped(input).contains('\n');
            judged.then(|| (unescaped(input), expected))
        })
        .collect();
    assert!(rows.len() > 2_700, "{}", rows.len());
    let input: String = rows
        .iter()
        .fold(String::new(), |all, (input, _)| all + input + "\n");
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            input.as_bytes(),
        )
        .ok();
    let answers = run.json_lines();
    assert_eq!(answers.len(), rows.len());
    let wrong: Vec<_> = rows
        .iter()
        .zip(&answers)
        .filter(|((input, expected), answer)| {
            answer["input"] != **input || answer["verdict"] != **expected
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_line_says_rule_and_address() {
    let run = Person::new().run(&[
        "guard",
        "check",
        "--offline",
        "--json",
        "https://[::ffff:10.0.0.1]/",
    ]);
    assert_eq!(run.code, Some(1));
    assert_eq!(
        run.out,
        "{\"input\":\"https://[::ffff:10.0.0.1]/\",\"verdict\":\"block\",\"rule\":\"private\",\"address\":\"::ffff:10.0.0.1\"}\n"
    );
    assert_eq!(run.err, "");
}

#[test]
fn one_check_fails_unless_allowed_and_stdin_never_does() {
    let person = Person::new();
    assert_eq!(
        person.run(&["guard", "check", "--offline", "8.8.8.8"]).code,
        Some(0)
    );
    assert_eq!(
        person
            .run(&["guard", "check", "--offline", "10.0.0.1"])
            .code,
        Some(1)
    );
    assert_eq!(
        person.run(&["guard", "check", "--offline", ""]).code,
        Some(1)
    );
    let run = person.run_with_input(&["guard", "check", "--stdin", "--offline"], b"10.0.0.1\n");
    assert_eq!(run.code, Some(0));
    assert_eq!(person.run(&["guard", "check"]).code, Some(2));
    assert_eq!(
        person.run(&["guard", "check", "--stdin", "8.8.8.8"]).code,
        Some(2)
    );
}

#[test]
fn bytes_that_are_no_text_and_endless_lines_are_errors_and_the_rest_goes_on() {
    let mut input = b"https://\xff\xfe/\n".to_vec();
    input.extend(vec![b'a'; 3_000_000]);
    input.extend(b"\n\x1b[2J\n1.1.1.1\n");
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            &input,
        )
        .ok();
    assert!(run.out.len() < 200_000, "{}", run.out.len());
    assert!(!run.out.contains('\u{1b}'));
    let verdicts: Vec<_> = run
        .json_lines()
        .iter()
        .map(|line| line["verdict"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(verdicts, ["error", "error", "error", "allow"]);
}

#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut child = Person::new()
        .command(&["guard", "check", "--stdin", "--offline", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for line in ["8.8.8.8", "10.0.0.1"] {
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(
            answer.contains(&format!("\"input\":\"{line}\"")),
            "{answer}"
        );
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_this_machine_is_counts_unless_offline() {
    // Loopback is refused both ways; what is judged online needs no Village and no name server for an address.
    let person = Person::new();
    assert_eq!(person.run(&["guard", "check", "127.0.0.1"]).code, Some(1));
    assert_eq!(person.run(&["guard", "check", "1.1.1.1"]).code, Some(0));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Person::new()
        .command(&["guard", "check", "--stdin", "--offline"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // The program may be gone before all is written.
    drop(input.write_all(&b"1.1.1.1\n".repeat(1_000)));
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_hundred_thousand_lines_keep_their_order() {
    let input: String = (0..100_000)
        .map(|n| match n % 4 {
            0 => format!("10.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255),
            1 => format!("https://host{n}.example/\n"),
            2 => format!("https://2.{n}/\n"),
            _ => format!("line {n}\n"),
        })
        .collect();
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            input.as_bytes(),
        )
        .ok();
    let verdicts = ["block", "allow", "allow", "error"];
    for ((line, answer), verdict) in input
        .lines()
        .zip(run.json_lines())
        .zip(verdicts.iter().cycle())
    {
        assert_eq!(answer["input"], line);
        assert_eq!(answer["verdict"], *verdict, "{line}");
    }
    assert_eq!(run.out.lines().count(), 100_000);
}

/// Every byte but the newline, alone, at the start of, inside and at the end of an address and a URL.
#[test]
fn no_byte_loses_a_line_or_ends_the_program() {
    let mut input = Vec::new();
    let mut lines = 0;
    for byte in (0..=u8::MAX).filter(|&byte| byte != b'\n') {
        for text in ["", "1.1.1.1", "https://example.com/"] {
            for at in [0, text.len() / 2, text.len()] {
                input.extend(&text.as_bytes()[..at]);
                input.push(byte);
                input.extend(&text.as_bytes()[at..]);
                input.push(b'\n');
                lines += 1;
            }
        }
    }
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            &input,
        )
        .ok();
    assert_eq!(run.json_lines().len(), lines);
    for answer in run.json_lines() {
        let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 4, "{answer}");
    }
    for line in run.out.lines() {
        let places: Vec<usize> = [
            "{\"input\":",
            ",\"verdict\":",
            ",\"rule\":",
            ",\"address\":",
        ]
        .iter()
        .map(|key| line.rfind(key).unwrap())
        .collect();
        assert!(places.is_sorted() && places[0] == 0, "{line}");
    }
}

#[test]
fn a_village_that_only_reports_says_so_at_the_start_and_on_readyz() {
    let ready = |served: &Served| {
        let address = served.admin.trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
        stream
            .write_all(b"GET /readyz HTTP/1.0\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let warning = "outbound.mode is \\\"report\\\"";
    let reporting = Served::by(&Person::new().with("AGENTSVILLE__OUTBOUND__MODE", "report"));
    let answer = ready(&reporting);
    assert!(
        answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"),
        "{answer}"
    );
    assert!(answer.contains(warning), "{answer}");
    let (code, log) = reporting.stop();
    assert_eq!(code, Some(0));
    assert!(
        log.contains("refusals are logged and not enforced"),
        "{log}"
    );
    let enforcing = Served::by(&Person::new());
    let answer = ready(&enforcing);
    assert!(!answer.contains(warning), "{answer}");
    let (_code, log) = enforcing.stop();
    assert!(!log.contains("refusals are logged"), "{log}");
}

/// A machine with a network, a resolv.conf and a hosts file of its own.
struct Machine {
    namespace: Namespace,
    files: TempDir,
    person: Person,
}

impl Machine {
    fn with(resolv_conf: &str, hosts: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("resolv.conf"), resolv_conf).unwrap();
        fs::write(files.path().join("hosts"), hosts).unwrap();
        Self {
            namespace: Namespace::new(),
            files,
            person: Person::new(),
        }
    }

    /// A DNS server of the machine's, on port 53.
    fn server(&self, address: [u8; 4]) -> ScriptedDns {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let at = SocketAddr::from((address, 53));
        runtime.block_on(self.namespace.spawn(ScriptedDns::start_at(at)))
    }

    /// `guard check` there, with this environment and none but it.
    fn check(&self, arguments: &[&str], environment: &[(&str, &Path)]) -> Run {
        let file = |name: &str| self.files.path().join(name);
        let inside = self
            .person
            .command(&[&["guard", "check"], arguments].concat());
        let with_hosts = with_file_in_place_of("/etc/hosts", &file("hosts"), inside.get_program());
        let mut command = with_file_in_place_of(
            "/etc/resolv.conf",
            &file("resolv.conf"),
            with_hosts.get_program(),
        );
        command
            .args(with_hosts.get_args())
            .args(inside.get_args())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.person.home())
            .envs(environment.iter().copied())
            .stdin(Stdio::null());
        self.namespace.run(|| finished(&mut command))
    }
}

#[test]
fn no_hosts_file_search_list_or_environment_says_what_a_name_means() {
    let machine = Machine::with(
        "domain evil.test\nsearch evil.test test\noptions ndots:15 timeout:1 attempts:1 rotate\nnameserver 127.0.0.1\n",
        "10.0.0.5 public.test\n93.184.216.36 nowhere.test redis\n",
    );
    let dns = machine.server([127, 0, 0, 1]);
    dns.host("public.test", &["93.184.216.34"]);
    for completed in ["nowhere.test.evil.test", "redis.evil.test", "redis.test"] {
        dns.host(completed, &["93.184.216.35"]);
    }
    let aliases = machine.files.path().join("aliases");
    fs::write(&aliases, "public evil.test\nredis evil.test\n").unwrap();
    let environment = [
        ("LOCALDOMAIN", Path::new("evil.test")),
        ("RES_OPTIONS", Path::new("ndots:15")),
        ("HOSTALIASES", &aliases),
    ];
    for (line, verdict, rule, address) in [
        ("https://public.test/", "allow", None, Some("93.184.216.34")),
        ("https://nowhere.test/", "block", Some("unresolvable"), None),
        ("https://redis/", "block", Some("single-label"), None),
    ] {
        let run = machine.check(&["--json", line], &environment);
        assert_eq!(
            run.json(),
            json!({"input": line, "verdict": verdict, "rule": rule, "address": address}),
            "{run:?}"
        );
    }
    let mut asked: Vec<String> = dns.queries().into_iter().map(|(name, _)| name).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["nowhere.test", "public.test"]);
}

#[test]
fn a_dead_and_a_silent_server_keep_no_name_from_the_one_that_answers() {
    for others in [
        "nameserver 127.0.0.9\n",
        "nameserver 127.0.0.2\n",
        "nameserver 127.0.0.9\nnameserver 127.0.0.2\n",
    ] {
        let machine = Machine::with(&format!("{others}nameserver 127.0.0.1\n"), "");
        let silent = machine.server([127, 0, 0, 2]);
        let answering = machine.server([127, 0, 0, 1]);
        for family in [Family::V4, Family::V6] {
            silent.script("public.test", family, [Answer::Silence]);
        }
        answering.host("public.test", &["93.184.216.34"]);
        let run = machine.check(&["--json", "https://public.test/"], &[]);
        assert_eq!(run.json()["verdict"], "allow", "{others}: {run:?}");
    }
}

#[test]
fn a_machine_without_dns_asks_nobody_and_says_what_to_do() {
    let machine = Machine::with("# nothing\n", "93.184.216.36 public.test\n");
    let nobodys = machine.server([127, 0, 0, 1]);
    nobodys.host("public.test", &["93.184.216.34"]);
    let run = machine.check(&["https://public.test/"], &[]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.out
            .contains("name a server in /etc/resolv.conf or in outbound.nameserver"),
        "{run:?}"
    );
    assert_eq!(nobodys.queries(), []);
}
