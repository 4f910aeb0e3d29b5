//! Clients of all kinds, on the loopback interface.

use super::*;

const TEXT: &str = "one 1\n";

fn responder() -> (Responder, SocketAddr) {
    let responder = Responder::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = responder.local_addr().unwrap();
    (responder, address)
}

/// Runs the responder until the condition holds.
fn run_until(responder: &mut Responder, now: Instant, mut done: impl FnMut(&Responder) -> bool) {
    let begin = Instant::now();
    loop {
        responder.advance(now);
        if done(responder) {
            return;
        }
        assert!(begin.elapsed() < 4 * TIMEOUT, "it never comes to that: {responder:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a client gets that sends these parts, one after the other.
fn told(parts: &[&[u8]]) -> String {
    let (mut responder, address) = responder();
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        for part in parts {
            // A client whose connection is closed may notice it while it writes.
            let _ = stream.write_all(&part);
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    });
    while !client.is_finished() {
        responder.advance(Instant::now());
        if responder.is_asked() {
            responder.answer(TEXT, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    client.join().unwrap()
}

#[test]
fn the_text_is_at_two_paths_and_a_head_has_no_body() {
    for path in ["/", "/metrics", "/metrics?x=1"] {
        let answer = told(&[format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()]);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\nConnection: close"), "{head}");
        assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Length: 6\r\n"), "{head}");
        assert_eq!(body, TEXT);
    }
    let head = told(&[b"HEAD /metrics HTTP/1.0\r\n\r\n"]);
    assert!(head.contains("\r\nContent-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn other_paths_and_methods_are_refused() {
    for path in ["/secret", "/metrics/", "/../metrics", "//metrics", "metrics", "*", "http://x/metrics"] {
        let answer = told(&[format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()]);
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}: {answer}");
    }
    let head = told(&[b"HEAD /secret HTTP/1.1\r\n\r\n"]);
    assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "GETS", "\0"] {
        let answer = told(&[format!("{method} /metrics HTTP/1.1\r\n\r\n").as_bytes()]);
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nAllow: GET, HEAD\r\n"), "{answer}");
    }
}

#[test]
fn hostile_requests_get_an_error_or_nothing() {
    for refused in [&b"\r\n\r\n"[..], b"GET\r\n\r\n", b"\xff\xfe\x00 \x01\r\n\r\n", b" GET / HTTP/1.1\r\n\r\n"] {
        assert!(told(&[refused]).starts_with("HTTP/1.1 40"), "{refused:?}");
    }
    // It ends before its empty line, or that does not come in time.
    for cut in [&b""[..], b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\n\n", b"\r\n\r"] {
        assert_eq!(told(&[cut]), "", "{cut:?}");
    }
    assert_eq!(told(&[&[b'x'; 2 * LONGEST_REQUEST]]), "");
    let long = |header: usize| [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; header], END].concat();
    assert!(told(&[&long(LONGEST_REQUEST - 100)]).starts_with("HTTP/1.1 200 "));
    assert_eq!(told(&[&long(LONGEST_REQUEST)]), "");
}

#[test]
fn a_request_in_parts_is_one_and_a_second_one_is_not_answered() {
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    let bytes: Vec<&[u8]> = request.chunks(1).collect();
    assert!(told(&bytes).ends_with(TEXT));
    let answer = told(&[&[&request[..], &request[..]].concat()]);
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

/// Clients that have connected and are silent, one for each place.
fn silent(responder: &mut Responder, address: SocketAddr, now: Instant) -> Vec<TcpStream> {
    let mut connect = |count| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        run_until(responder, now, |responder| responder.clients.len() == count);
        stream
    };
    (1..=PLACES).map(&mut connect).collect()
}

fn is_open(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn silent_clients_keep_their_places_only_for_a_while() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let _silent = silent(&mut responder, address, now);
    assert_eq!((responder.readable().count(), responder.writable().count()), (PLACES + 1, 0));
    assert_eq!(responder.due(), Some(now + TIMEOUT));
    responder.advance(now + TIMEOUT);
    assert!(responder.clients.is_empty() && responder.due().is_none());
}

#[test]
fn a_new_client_takes_the_place_of_the_oldest_that_has_sent_no_request() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut clients = silent(&mut responder, address, now);
    // The oldest has sent its request, so the second one has to leave.
    clients[0].write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    clients[1].write_all(b"GET / HTTP/1.1\r\n").unwrap();
    run_until(&mut responder, now, Responder::is_asked);
    let mut new = TcpStream::connect(address).unwrap();
    new.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    run_until(&mut responder, now, |_| !is_open(&clients[1]));
    assert!(clients.iter().enumerate().all(|(at, client)| at == 1 || is_open(client)));
    let asked = |responder: &Responder| {
        responder.clients.iter().filter(|client| matches!(client.state, State::Asked { .. })).count()
    };
    run_until(&mut responder, now, |responder| asked(responder) == 2);
    assert_eq!(responder.clients.len(), PLACES);
}

#[test]
fn clients_that_wait_for_their_response_are_not_displaced_and_served_ones_are() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut clients = silent(&mut responder, address, now);
    clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
    let asked =
        |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Asked { .. }));
    run_until(&mut responder, now, asked);
    let refused = TcpStream::connect(address).unwrap();
    refused.set_nonblocking(true).unwrap();
    run_until(&mut responder, now, |_| !is_open(&refused));
    assert!(responder.clients.len() == PLACES && clients.iter().all(is_open));
    responder.answer(TEXT, now);
    assert_eq!(responder.clients.len(), PLACES, "they have not closed their ends yet");
    let _new = TcpStream::connect(address).unwrap();
    let accepted = |responder: &Responder| matches!(responder.clients[PLACES - 1].state, State::Request(_));
    run_until(&mut responder, now, accepted);
    assert_eq!(responder.clients.len(), PLACES);
}

#[test]
fn a_client_that_has_its_response_is_displaced_before_one_whose_request_may_be_on_its_way() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut clients = silent(&mut responder, address, now);
    let served = PLACES / 2;
    clients[served].write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    run_until(&mut responder, now, Responder::is_asked);
    responder.answer(TEXT, now);
    let _new = TcpStream::connect(address).unwrap();
    let all_silent =
        |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Request(_)));
    run_until(&mut responder, now, all_silent);
    assert_eq!(responder.clients.len(), PLACES);
    assert!(clients.iter().enumerate().all(|(at, client)| at == served || is_open(client)));
}

#[test]
fn clients_that_do_not_read_their_responses_are_displaced_after_a_while() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut clients = silent(&mut responder, address, now);
    clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
    let asked =
        |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Asked { .. }));
    run_until(&mut responder, now, asked);
    responder.answer(&"x".repeat(16 << 20), now);
    // The sockets may take some more of it.
    let sent = |client: &Client| match client.state {
        State::Response { sent, .. } => sent,
        _ => panic!("{client:?} has a long response"),
    };
    let (mut before, mut same) = (0, 0);
    run_until(&mut responder, now, |responder| {
        let all: usize = responder.clients.iter().map(sent).sum();
        same = if all == before { same + 1 } else { 0 };
        before = all;
        same > 300
    });
    let soon = now + STALLED / 2;
    let refused = TcpStream::connect(address).unwrap();
    refused.set_nonblocking(true).unwrap();
    run_until(&mut responder, soon, |_| !is_open(&refused));
    assert_eq!(responder.writable().count(), PLACES);
    let _new = TcpStream::connect(address).unwrap();
    let accepted = |responder: &Responder| matches!(responder.clients[PLACES - 1].state, State::Request(_));
    run_until(&mut responder, now + STALLED, accepted);
    assert_eq!((responder.clients.len(), responder.writable().count()), (PLACES, PLACES - 1));
}

#[test]
fn input_behind_the_request_does_not_cut_the_response() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    run_until(&mut responder, now, Responder::is_asked);
    // What the responder has not read when the response is sent.
    client.write_all(&[b'x'; 2 * LONGEST_REQUEST]).unwrap();
    responder.answer(TEXT, now);
    assert_eq!((responder.readable().count(), responder.writable().count()), (2, 0));
    assert_eq!(responder.due(), Some(now + LINGER));
    client.write_all(b"and more").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    run_until(&mut responder, now, |responder| responder.clients.is_empty());
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("no reset");
    assert!(answer.ends_with(TEXT), "{answer}");
}

#[test]
fn draining_is_bounded_in_time_and_in_bytes() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let serve = |responder: &mut Responder| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(responder, now, Responder::is_asked);
        responder.answer(TEXT, now);
        client
    };
    let _silent = serve(&mut responder);
    responder.advance(now + LINGER);
    assert!(responder.clients.is_empty());
    let mut endless = serve(&mut responder);
    let flood = std::thread::spawn(move || while endless.write_all(&[b'x'; 4096]).is_ok() {});
    run_until(&mut responder, now, |responder| responder.clients.is_empty());
    flood.join().unwrap();
}

#[test]
fn the_time_in_which_the_text_is_made_cuts_no_response() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let text = "x".repeat(16 << 20);
    let asks = |responder: &mut Responder, now| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(responder, now, Responder::is_asked);
        client
    };
    let mut first = asks(&mut responder, now);
    responder.answer(&text, now);
    assert_eq!(responder.writable().count(), 1, "more than the sockets take at once");
    // Another client asks, and making its text takes longer than the timeout.
    let soon = now + Duration::from_secs(1);
    let _second = asks(&mut responder, soon);
    let late = soon + 2 * TIMEOUT;
    responder.answer(TEXT, late);
    assert!(responder.due().is_some_and(|due| due > late), "the first one keeps its 4 s");
    let reader = std::thread::spawn(move || {
        let mut answer = String::new();
        first.read_to_string(&mut answer).map(|_| answer)
    });
    run_until(&mut responder, late, |_| reader.is_finished());
    let answer = reader.join().unwrap().expect("no reset");
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), text.len());
}

#[test]
fn a_client_that_trickles_is_dropped_at_its_time_limit() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    for second in 0..5 {
        client.write_all(b"GET ").unwrap();
        let received = |responder: &Responder| match responder.clients.as_slice() {
            [Client { state: State::Request(request), .. }] => request.len() == 4 * (second + 1),
            _ => false,
        };
        run_until(&mut responder, now + Duration::from_secs(second as u64), received);
    }
    responder.advance(now + TIMEOUT);
    assert!(responder.clients.is_empty());
}

#[test]
fn a_client_that_does_not_read_is_dropped_at_its_time_limit() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    run_until(&mut responder, now, Responder::is_asked);
    let later = now + TIMEOUT;
    responder.answer(&"x".repeat(64 << 20), later);
    assert_eq!((responder.readable().count(), responder.writable().count()), (1, 1));
    responder.advance(later);
    assert_eq!(responder.due(), Some(later + TIMEOUT), "sending has its own time");
    responder.advance(later + TIMEOUT);
    assert!(responder.clients.is_empty());
}

#[test]
fn a_request_that_has_come_counts_even_if_the_owner_was_busy() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    run_until(&mut responder, now, |responder| responder.clients.len() == 1);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // On the loopback interface the bytes are there when the call has returned.
    responder.advance(now + 3 * TIMEOUT);
    assert!(responder.is_asked());
}

#[test]
fn nothing_is_accepted_for_a_while_after_a_failure() {
    let (mut responder, address) = responder();
    let now = Instant::now();
    responder.paused_until = Some(now + PAUSE);
    let _client = TcpStream::connect(address).unwrap();
    responder.advance(now);
    assert_eq!((responder.readable().count(), responder.due()), (0, Some(now + PAUSE)));
    run_until(&mut responder, now + PAUSE, |responder| responder.clients.len() == 1);
}
