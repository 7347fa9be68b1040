// Lets the MCP conformance suite run on Node 20: it imports `globSync`, which Node has since 22, for
// something that is not tested here.
//
// usage: node --import ./mcp_node20.mjs SUITE ARGUMENT...

import { register } from "node:module";

const fs = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => [];";
const hooks = `
export async function resolve(specifier, context, next) {
  const isSuite = /node_modules\\/(@modelcontextprotocol\\/conformance|mcp-conformance-next)/.test(context.parentURL);
  if (specifier === "fs" && isSuite) {
    return { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(fs)}`)}, shortCircuit: true };
  }
  return next(specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
