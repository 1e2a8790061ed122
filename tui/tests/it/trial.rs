//! Tests of the key that is made for trying models.

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tui::connection::{Address, TrialKey, try_model};
use tui::message::Message;
use tui::model::trial::{TrialApi, TrialEvent, TrialRequest};

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::fake::{Backend, Gateway, TOKEN};

/// Starts an API that refuses every key, and returns its base URL.
fn refusing_api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("no free port");
    let address = listener.local_addr().expect("not bound");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("not accepted");
            let (mut request, mut piece) = (Vec::new(), [0; 4_096]);
            // Closing the connection before all is read could take the response back.
            while !request.ends_with(b"}") {
                let count = connection.read(&mut piece).expect("not read");
                assert!(count > 0, "the request is incomplete");
                request.extend_from_slice(&piece[..count]);
            }
            let body = r#"{"error":{"message":"the key is revoked","code":"invalid_api_key"}}"#;
            let head = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length:";
            write!(connection, "{head} {}\r\n\r\n{body}", body.len()).expect("not sent");
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn the_key_survives_a_stopped_request_and_is_replaced_when_it_is_refused() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let before = backend.read(|state| state.keys.len());
    let made = || {
        backend.read(|state| {
            let made = &state.keys[..state.keys.len() - before];
            (made.len(), made.iter().filter(|key| key.revoked_at.is_some()).count())
        })
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (sender, mut messages) = mpsc::channel(8);
    let (key, base_url) = (TrialKey::default(), refusing_api());
    let mut run = |stop: oneshot::Receiver<()>| {
        let request = TrialRequest {
            run: 1,
            base_url: base_url.clone(),
            model: "a".to_owned(),
            api: TrialApi::Chat,
            prompt: "Say hi".to_owned(),
            key: None,
        };
        let address = Address::new(gateway.url());
        let token = TOKEN.into();
        runtime.block_on(try_model(address, token, key.clone(), request, sender.clone(), stop));
        messages.try_recv().ok()
    };

    let (stop, stopped) = oneshot::channel();
    drop(stop);
    assert!(run(stopped).is_none(), "no request is sent");
    assert_eq!(made(), (1, 0), "the key is created nevertheless");

    let (_stop, stopped) = oneshot::channel();
    let refused = run(stopped);
    let Some(Message::Trial(1, TrialEvent::Failed(problem))) = refused else {
        panic!("{refused:?}")
    };
    assert!(problem.contains("the key is revoked"), "{problem}");
    assert_eq!(made(), (1, 1), "the same key is used, and taken back after its refusal");

    let (_stop, stopped) = oneshot::channel();
    run(stopped);
    assert_eq!(made(), (2, 2), "another key is created");
}
