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

const ASCII = { "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss" };

export function call(args) {
  const { title } = JSON.parse(args);
  status(`making a name of ${title.length} letters`);
  // The engine inside a component has no tables of Unicode, so no `normalize`.
  const slug = title
    .toLowerCase()
    .replace(/[äöüß]/g, (letter) => ASCII[letter])
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  if (slug === "") {
    // What is thrown must be a text: it is what the caller is told.
    throw "the title has no letter and no digit; give one that has";
  }
  return JSON.stringify(slug);
}
