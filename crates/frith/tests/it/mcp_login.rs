//! Logins to MCP servers that want OAuth. The server and whoever gives tokens for it are one program of
//! ours; foreign ones are in the conformance suite (`mcp.rs`).

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::frith;
use crate::mcp_servers::{agent, ask, call};
use crate::node::{Node, Wire};

/// An MCP server at `/mcp` and `/other`, and a giver of tokens beside it. It writes down who has shown
/// what.
const SERVER: &str = r#"
import base64, hashlib, json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

log = open(sys.argv[1], "a", buffering=1)
given = {"count": 0, "token": None, "refresh": None, "challenge": None, "scope": ""}

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=None, **headers):
        body = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        base, place = f"http://{self.headers['Host']}", urlsplit(self.path)
        query = {key: value[0] for key, value in parse_qs(place.query).items()}
        if place.path == "/.well-known/oauth-protected-resource/mcp":
            self.say(200, {"resource": base + "/mcp", "authorization_servers": [sys.argv[3] or base], "scopes_supported": ["read"]})
        elif place.path == "/.well-known/oauth-authorization-server":
            self.say(200, {"issuer": base, "authorization_endpoint": sys.argv[2] or base + "/authorize",
                "token_endpoint": base + "/token", "registration_endpoint": base + "/register",
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                "token_endpoint_auth_methods_supported": ["client_secret_post"]})
        elif place.path == "/authorize":
            assert query["resource"] == base + "/mcp" and query["code_challenge_method"] == "S256"
            given["challenge"], given["scope"] = query["code_challenge"], query.get("scope", "")
            back = f"{query['redirect_uri']}?code=c0de-of-the-browser&state={query['state']}&iss={base}"
            self.say(302, Location=back)
        else:
            self.say(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            return self.say(201, {"client_id": "made", "client_secret": "s3cret"})
        if self.path == "/token":
            return self.token({key: value[0] for key, value in parse_qs(body.decode()).items()})
        shown = self.headers.get("Authorization")
        print(self.path, shown, file=log)
        m = json.loads(body)
        if shown is None or shown != f"Bearer {given['token']}":
            base = f"http://{self.headers['Host']}/.well-known/oauth-protected-resource/mcp"
            return self.say(401, {}, WWW_Authenticate=f'Bearer resource_metadata="{base}"')
        method, name = m.get("method"), m.get("params", {}).get("name")
        if name == "write" and "write" not in given["scope"]:
            return self.say(403, {}, WWW_Authenticate='Bearer error="insufficient_scope", scope="write"')
        if name == "revoke":
            given["token"] = None
        tool = lambda name: {"name": name, "inputSchema": {"type": "object"}}
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "0"}},
            "tools/list": {"tools": [tool("look"), tool("revoke"), tool("write")]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        if "id" not in m:
            self.say(202)
        elif method in results:
            self.say(200, {"jsonrpc": "2.0", "id": m["id"], "result": results[method]})
        else:
            self.say(200, {"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}})

    def token(self, form):
        print("token", form["grant_type"], form.get("client_secret"), file=log)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        is_code = form.get("code") == "c0de-of-the-browser" and proof.decode().rstrip("=") == given["challenge"]
        is_refresh = given["refresh"] is not None and form.get("refresh_token") == given["refresh"]
        is_node = form["grant_type"] == "client_credentials"
        if not (is_code or is_refresh or is_node) or form.get("client_secret") != "s3cret":
            return self.say(400, {"error": "invalid_grant"})
        given["count"] += 1
        given["token"], given["refresh"] = f"tok-{given['count']}-secret", f"ref-{given['count']}-secret"
        self.say(200, {"access_token": given["token"], "token_type": "Bearer", "refresh_token": given["refresh"],
            "expires_in": 3600})

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::that_leads_to("", folder)
    }

    /// One that sends browsers elsewhere than to itself.
    fn that_leads_to(place: &str, folder: &Path) -> Self {
        Self::with(place, "", folder)
    }

    /// One that says that another gives tokens for it.
    fn that_names(issuer: &str, folder: &Path) -> Self {
        Self::with("", issuer, folder)
    }

    fn with(place: &str, issuer: &str, folder: &Path) -> Self {
        let mut process = Command::new("python3")
            .args(["-c", SERVER])
            .arg(folder.join("shown"))
            .args([place, issuer])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { process, port }
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The configuration of a node that uses it.
    fn config(&self, path: &str) -> String {
        self.config_with(path, &json!({}))
    }

    fn config_with(&self, path: &str, oauth: &Value) -> String {
        let host = format!("127.0.0.1:{}", self.port);
        let url = format!("{}{path}", self.origin());
        let servers = json!({"docs": {"url": url, "oauth": oauth}});
        let mcp =
            json!({"name": "mcp", "type": "mcp", "private_hosts": [host], "servers": servers});
        json!({"plugins": [{"name": "tools", "type": "tools"}, mcp]}).to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// What the page says that a browser is shown at an address, wherever that leads.
fn browse(url: &str) -> String {
    let curl = ["--silent", "--show-error", "--location", url];
    let shown = Command::new("curl").args(curl).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

/// Logs in as an operator does. Somebody else is at the browser's place before.
fn login(node: &Node) -> String {
    let mut running = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(["mcp", "login", "docs", "--data"])
        .arg(node.data())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap()).lines();
    let url = said
        .find_map(|line| Some(line.unwrap().trim().to_owned()).filter(|it| it.starts_with("http")));
    let url = url.unwrap();
    let (_, back) = url
        .split_once("redirect_uri=http%3A%2F%2F127.0.0.1%3A")
        .unwrap();
    let (port, _) = back.split_once('%').unwrap();
    let back = format!("http://127.0.0.1:{port}/callback");
    assert!(browse(&format!("{back}?code=mine&state=guessed")).contains("no login of yours"));
    assert!(browse(&format!("{back}?error=access_denied")).contains("no login of yours"));
    assert!(browse(&format!("http://127.0.0.1:{port}/")).contains("nothing here"));
    assert!(browse(&url).contains("You are logged in"));
    assert!(running.wait().unwrap().success());
    let mut out = String::new();
    running.stdout.unwrap().read_to_string(&mut out).unwrap();
    out
}

fn text(wire: &mut Wire, id: &str, tool: &str) -> Value {
    let called = call(wire, id, tool, &json!({}));
    called["data"]["data"]["text"].clone()
}

/// What a call says that is refused.
fn refusal(wire: &mut Wire, id: &str, tool: &str) -> String {
    let called = call(wire, id, tool, &json!({}));
    called["message"].as_str().unwrap_or_default().to_owned()
}

/// Whether a text stands in any file below a folder.
fn stands_in(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => stands_in(&path, text),
            false => std::fs::read(&path).is_ok_and(|bytes| {
                let mut windows = bytes.windows(text.len());
                windows.any(|window| window == text.as_bytes())
            }),
        }
    })
}

#[test]
fn an_operator_logs_in_and_agents_use_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let node = Node::start(folder.path(), &server.config("/mcp"));
    let mut wire = agent(&node);
    let list = |wire: &mut Wire, id: &str| {
        let listed = ask(wire, &json!({"type": "mcp/server/list/req", "id": id}));
        listed["servers"][0].clone()
    };
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    let before = list(&mut wire, "1");
    assert_eq!(before["status"], "error", "{before}");
    let error = before["error"].as_str().unwrap();
    assert!(error.contains("frith mcp login docs"), "{error}");

    assert_eq!(login(&node), "logged in to docs: 3 tools\n");
    assert_eq!(text(&mut wire, "2", "docs__look"), "done");
    // A token that the server takes no more is exchanged, by the client that it was given to.
    assert_eq!(text(&mut wire, "3", "docs__revoke"), "done");
    assert_eq!(text(&mut wire, "4", "docs__look"), "done");
    // More rights need another login, which keeps those there are.
    let refused = refusal(&mut wire, "5", "docs__write");
    assert!(refused.contains("more rights"), "{refused}");
    login(&node);
    assert_eq!(text(&mut wire, "6", "docs__write"), "done");

    // The next process has the login, and nobody can read it.
    drop(wire);
    drop(node);
    for secret in [
        "tok-3-secret",
        "ref-3-secret",
        "s3cret",
        "c0de-of-the-browser",
    ] {
        assert!(!stands_in(&folder.path().join("data"), secret), "{secret}");
    }
    let node = Node::start(folder.path(), &server.config("/mcp"));
    let mut wire = agent(&node);
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    assert_eq!(text(&mut wire, "7", "docs__look"), "done");
    let data = node.data();
    let logout = ["mcp", "logout", "docs", "--data", data.to_str().unwrap()];
    let (_, out, _) = frith(&logout, "");
    assert_eq!(out, "logged out of docs\n");
    let refused = refusal(&mut wire, "8", "docs__look");
    assert!(refused.contains("frith mcp login docs"), "{refused}");

    let shown = std::fs::read_to_string(folder.path().join("shown")).unwrap();
    assert!(shown.contains("token refresh_token s3cret"), "{shown}");
}

/// What one server gave is not shown to another, also if that has its name.
#[test]
fn a_token_is_for_one_address() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let node = Node::start(folder.path(), &server.config("/mcp"));
    let mut wire = agent(&node);
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    login(&node);
    drop(wire);
    drop(node);
    let node = Node::start(folder.path(), &server.config("/other"));
    let mut wire = agent(&node);
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    let shown = std::fs::read_to_string(folder.path().join("shown")).unwrap();
    assert!(shown.contains("/other None"), "{shown}");
    assert!(!shown.contains("/other Bearer"), "{shown}");
}

/// Whoever gives tokens says what a browser is to open: nothing but the web, and nothing in the clear.
#[test]
fn a_browser_is_not_sent_just_anywhere() {
    for place in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://h.invalid/authorize",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::that_leads_to(place, folder.path());
        let node = Node::start(folder.path(), &server.config("/mcp"));
        let data = node.data();
        let login = ["mcp", "login", "docs", "--data", data.to_str().unwrap()];
        let (status, _, error) = frith(&login, "");
        assert_eq!(status, 1, "{place}: {error}");
        assert!(error.contains("cannot be opened"), "{place}: {error}");
    }
}

/// The secret of the node's client is for one issuer, whomever the server names.
#[test]
fn a_client_secret_goes_to_the_configured_issuer_alone() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let thief = Server::start(elsewhere.path());
    let server = Server::that_names(&thief.origin(), folder.path());
    let oauth = |issuer: &Server| {
        json!({"grant": "client_credentials", "client_id": "node", "client_secret": "s3cret",
            "issuer": issuer.origin()})
    };
    let config = server.config_with("/mcp", &oauth(&server));
    let node = Node::start(folder.path(), &config);
    let mut wire = agent(&node);
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    let listed = ask(
        &mut wire,
        &json!({"type": "mcp/server/list/req", "id": "1"}),
    );
    let error = listed["servers"][0]["error"].as_str().unwrap();
    assert!(error.contains("`issuer` of its `oauth`"), "{listed}");
    let (status, _, error) = frith(
        &[
            "mcp",
            "login",
            "docs",
            "--data",
            node.data().to_str().unwrap(),
        ],
        "",
    );
    assert_eq!(status, 1);
    assert!(error.contains(&thief.origin()), "{error}");
    for folder in [&folder, &elsewhere] {
        let shown = std::fs::read_to_string(folder.path().join("shown")).unwrap_or_default();
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    drop(node);
    // The operator may believe the other one.
    let folder = tempfile::tempdir().unwrap();
    let honest = Server::start(folder.path());
    let node = Node::start(folder.path(), &honest.config_with("/mcp", &oauth(&honest)));
    let mut wire = agent(&node);
    crate::mcp_servers::wake(&mut wire, "w", "docs");
    assert_eq!(text(&mut wire, "2", "docs__look"), "done");
}

#[test]
fn what_is_no_login_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let servers = json!({
        "program": {"command": ["true"]},
        "given": {"url": "https://x.invalid/mcp", "headers": {"authorization": "Bearer x"}},
    });
    let node = Node::start(folder.path(), &crate::mcp_servers::with_servers(&servers));
    let data = node.data();
    for (server, said) in [
        ("none", "it has "),
        ("program", "takes no login"),
        ("given", "takes no login"),
    ] {
        let (status, _, error) = frith(
            &["mcp", "login", server, "--data", data.to_str().unwrap()],
            "",
        );
        assert_eq!(status, 1);
        assert!(error.contains(said), "{error}");
    }
}
