// An agent in plain JavaScript (Node): it shakes hands, looks for a tool and calls it.
//
//     node examples/agents/agent.mjs [DATA]     // the node's data directory, ~/.local/share/frith if not said

import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const data = process.argv[2] ?? join(process.env.XDG_DATA_HOME || join(homedir(), ".local/share"), "frith");
const read = (name) => readFileSync(join(data, name), "utf8");

class Agent {
  #waiting = new Map(); // what was asked, by id
  #number = 0;

  constructor() {
    const { unix } = JSON.parse(read("endpoints.json"));
    this.socket = connect(unix.slice("unix:".length));
    createInterface({ input: this.socket }).on("line", (line) => this.#hear(JSON.parse(line)));
  }

  // Several may be asked at once; answers come as they are ready.
  ask(type, body, onEvent = () => {}) {
    const id = `${process.pid}-${++this.#number}`;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onEvent });
      this.say({ type, id, ...body });
    });
  }

  say(message) {
    this.socket.write(JSON.stringify(message) + "\n");
  }

  #hear(message) {
    const asked = this.#waiting.get(message.req_id);
    if (!asked) return; // pushed, and nobody listens
    if (message.type.endsWith("event")) return asked.onEvent(message);
    this.#waiting.delete(message.req_id);
    if (message.type !== "error") return asked.resolve(message);
    asked.reject(Object.assign(new Error(`${message.code}: ${message.message}`), { error: message }));
  }
}

const agent = new Agent();
const hello = await agent.ask("handshake/req", { agent_id: "example", agent_caps: ["tools"], auth_token: read("token").trim() });
if (!hello.ok) throw new Error(hello.reason);

const found = await agent.ask("tool/list/req", { query: "current time" });
console.log("found", found.tools[0].name);

const call = (tool_name, args, onEvent) =>
  agent.ask("tool/call/req", { tool_name, arguments: args, streaming: true, timeout: 60 }, onEvent);
const show = (event) => console.log(event.kind, (event.data.message ?? "").trim());
const [ran, time] = await Promise.all([call("run_command", { command: "echo one" }, show), call("current_time", {})]);
console.log("exit code", ran.data.data.exit_code);
console.log("still there:", time.data.data.utc !== undefined);

await call("read_file", { path: "../../etc/passwd" }).catch(({ error }) => console.log("refused", error.code));
agent.say({ type: "shutdown", id: "bye", timeout: 0 });
agent.socket.end();
