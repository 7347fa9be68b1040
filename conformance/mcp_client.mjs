// The official TypeScript SDKs of MCP against ours.
//
// usage: node mcp_client.mjs 1|2 stdio COMMAND ARGUMENT...
//        node mcp_client.mjs 1|2 http URL TOKEN
//
// 1 is the SDK of the older eras, 2 the one of 2026-07-28. NPM names the folder with node_modules. The
// server is expected to have the tools of the demo plugin: echo, fail, stream, wait.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.NPM, "none.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const [generation, transport, ...rest] = process.argv.slice(2);

async function parts() {
  if (generation === "2") {
    const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
    const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
    return { Client, StreamableHTTPClientTransport, StdioClientTransport };
  }
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await load(
    "@modelcontextprotocol/sdk/client/streamableHttp.js",
  );
  return { Client, StreamableHTTPClientTransport, StdioClientTransport };
}

const { Client, StreamableHTTPClientTransport, StdioClientTransport } = await parts();

function connection() {
  if (transport === "stdio") {
    const [command, ...args] = rest;
    return new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
  }
  const [url, token] = rest;
  const headers = { Authorization: `Bearer ${token}` };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

const client = new Client({ name: "conformance", version: "1" });
await client.connect(connection());

const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
for (const name of ["echo", "stream", "tool_search"]) assert(names.includes(name), name);
assert(tools.every((tool) => tool.inputSchema.type === "object"));

const echoed = await client.callTool({ name: "echo", arguments: { text: "grüße" } });
assert.deepEqual(echoed.structuredContent, { text: "grüße" });
assert.equal(echoed.content[0].text, '{"text":"grüße"}');

const failed = await client.callTool({ name: "fail", arguments: {} });
assert.equal(failed.isError, true);
await assert.rejects(client.callTool({ name: "nothing", arguments: {} }));

const heard = [];
const onprogress = (progress) => heard.push(progress.progress);
// The SDK hears no more of a call when its answer is there, and both may come at once: so many that
// some come before.
const params = { name: "stream", arguments: { count: 1000 } };
const counted =
  generation === "2"
    ? await client.callTool(params, { onprogress })
    : await client.callTool(params, undefined, { onprogress });
assert.deepEqual(counted.structuredContent, { counted: 1000 });
assert(heard.length > 0);
assert(heard.every((progress, index) => index === 0 || progress > heard[index - 1]));

const aborter = new AbortController();
const wait = { name: "wait", arguments: { seconds: 3600 } };
const waiting =
  generation === "2"
    ? client.callTool(wait, { signal: aborter.signal })
    : client.callTool(wait, undefined, { signal: aborter.signal });
setImmediate(() => aborter.abort("enough"));
await assert.rejects(waiting);

assert.deepEqual((await client.listResources()).resources, []);
const { resourceTemplates } = await client.listResourceTemplates();
assert.equal(resourceTemplates[0].uriTemplate, "frith://artifact/{id}");
assert.deepEqual((await client.listPrompts()).prompts, []);

await client.close();
console.log("ok");
