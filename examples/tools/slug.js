// Makes a short name for addresses out of a title: a tool in JavaScript, for componentize-js (docs/tools.md).

import { status } from "frith:tool/events@1.0.0";

export function describe() {
  return {
    description: "Makes a short name for addresses out of a title",
    inputSchema: JSON.stringify({
      type: "object",
      additionalProperties: false,
      required: ["title"],
      properties: { title: { type: "string", description: "The title" } },
    }),
    outputSchema: JSON.stringify({ type: "string" }),
    tags: ["text", "url"],
    version: "1.0.0",
    readOnly: true,
    idempotent: true,
  };
}

export function call(args) {
  const { title } = JSON.parse(args);
  status(`making a name of ${title.length} letters`);
  const slug = title
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  if (slug === "") {
    throw "the title has no letter and no digit; give one that has";
  }
  return JSON.stringify(slug);
}
