// markdown.js - the markdown that models write, as a tree of plain objects, and that tree as DOM
// nodes. Text becomes text nodes and nothing else: whatever HTML is in it is shown as it is written.
//
//   block:  {kind: "paragraph" | "heading" | "code" | "quote" | "list" | "table" | "rule", ..}
//   inline: {kind: "text" | "code" | "strong" | "em" | "del" | "link" | "break", ..}

const MAX_DEPTH = 8;

// ---- blocks

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*).*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(\s+)(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

export function parse(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let i = 0;
  while (i < lines.length) {
    if (!lines[i].trim()) {
      i++;
      continue;
    }
    const [block, next] = (depth < MAX_DEPTH && readBlock(lines, i, depth)) || readParagraph(lines, i);
    blocks.push(block);
    i = next;
  }
  return blocks;
}

function readBlock(lines, i, depth) {
  return readCode(lines, i) ?? readHeading(lines, i) ?? readRule(lines, i) ?? readQuote(lines, i, depth) ??
    readList(lines, i, depth) ?? readTable(lines, i);
}

// A fence that is still open lasts to the end: the answer is still being written.
function readCode(lines, i) {
  const open = FENCE.exec(lines[i]);
  if (!open) return null;
  const close = new RegExp(`^ {0,3}${open[1][0]}{${open[1].length},}\\s*$`);
  let end = i + 1;
  while (end < lines.length && !close.test(lines[end])) end++;
  return [{ kind: "code", language: open[2], text: lines.slice(i + 1, end).join("\n") }, end + 1];
}

function readHeading(lines, i) {
  const m = HEADING.exec(lines[i]);
  return m && [{ kind: "heading", level: m[1].length, inline: parseInline(m[2]) }, i + 1];
}

function readRule(lines, i) {
  return RULE.test(lines[i]) ? [{ kind: "rule" }, i + 1] : null;
}

function readQuote(lines, i, depth) {
  const inner = [];
  for (let m; i < lines.length && (m = QUOTE.exec(lines[i])); i++) inner.push(m[1]);
  return inner.length ? [{ kind: "quote", blocks: parse(inner.join("\n"), depth + 1) }, i] : null;
}

function readList(lines, i, depth) {
  const first = ITEM.exec(lines[i]);
  if (!first) return null;
  const ordered = /\d/.test(first[2]);
  const indent = first[1].length;
  const list = { kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items: [] };
  for (let m; i < lines.length && (m = ITEM.exec(lines[i])) && m[1].length <= indent + 1 && m[1].length >= indent &&
    /\d/.test(m[2]) === ordered && !RULE.test(lines[i]);) {
    const inner = [m[4]];
    const hang = m[1].length + m[2].length + 1;
    for (i++; i < lines.length; i++) {
      const blankThenInner = !lines[i].trim() && /^ {2,}\S/.test(lines[i + 1] ?? "") ;
      if (!lines[i].trim() && !blankThenInner) break;
      const margin = lines[i].length - lines[i].trimStart().length;
      if (lines[i].trim() && margin < 2 && (ITEM.test(lines[i]) || inner.at(-1) === "")) break;
      if (lines[i].trim() && margin <= indent + 1 && ITEM.test(lines[i])) break;
      inner.push(lines[i].slice(Math.min(margin, hang)));
    }
    list.items.push(parse(inner.join("\n"), depth + 1));
    while (i + 1 < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1])) i++;
  }
  return [list, i];
}

function readTable(lines, i) {
  if (!lines[i].includes("|") || !TABLE_RULE.test(lines[i + 1] ?? "") || !lines[i + 1].includes("-")) return null;
  const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => parseInline(c.trim()));
  const table = { kind: "table", head: cellsOf(lines[i]), rows: [] };
  for (i += 2; i < lines.length && lines[i].includes("|"); i++) table.rows.push(cellsOf(lines[i]));
  return [table, i];
}

function readParagraph(lines, i) {
  const from = i++;
  while (i < lines.length && lines[i].trim() && !FENCE.test(lines[i]) && !HEADING.test(lines[i]) &&
    !QUOTE.test(lines[i]) && !ITEM.test(lines[i]) && !RULE.test(lines[i])) i++;
  return [{ kind: "paragraph", inline: parseInline(lines.slice(from, i).map((l) => l.trim()).join("\n")) }, i];
}

// ---- inline

const MARKS = [
  { kind: "code", re: /^(`+)([\s\S]*?[^`])\1(?!`)/ },
  { kind: "strong", re: /^(\*\*|__)(?=\S)([\s\S]*?\S)\1/ },
  { kind: "del", re: /^(~~)(?=\S)([\s\S]*?\S)\1/ },
  { kind: "em", re: /^(\*|_)(?=[^\s*_])([\s\S]*?[^\s*_])\1(?![\w*])/ },
];
const LINK = /^!?\[([^\]\n]*)\]\(\s*<?([^\s)>]*)>?(?:\s+"[^"]*")?\s*\)/;
const BARE = /^https?:\/\/[^\s<>"'`)\]]+[^\s<>"'`)\].,;:!?]/;
const ESCAPED = /^\\([\\`*_{}[\]()#+\-.!|~>])/;

// An address that a click may open: never a script.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function parseInline(text, depth = 0) {
  const out = [];
  let plain = "";
  const flush = () => {
    if (plain) out.push({ kind: "text", text: plain });
    plain = "";
  };
  while (text) {
    const [node, used, shown] = readInline(text, plain, depth);
    if (node) {
      flush();
      out.push(node);
    } else {
      plain += shown;
    }
    text = text.slice(used);
  }
  flush();
  return out;
}

// [node, characters used, plain text if there is no node]
function readInline(text, before, depth) {
  const escaped = ESCAPED.exec(text);
  if (escaped) return [null, 2, escaped[1]];
  if (text[0] === "\n") return [{ kind: "break" }, 1];
  for (const { kind, re } of depth < MAX_DEPTH ? MARKS : []) {
    if (text[0] === "_" && /\w$/.test(before)) continue; // snake_case
    const m = re.exec(text);
    if (!m) continue;
    if (kind === "code") return [{ kind, text: m[2].replace(/^ (.*) $/s, "$1") }, m[0].length];
    return [{ kind, inline: parseInline(m[2], depth + 1) }, m[0].length];
  }
  const link = readLink(text, depth);
  if (link) return link;
  const run = /^[^\\`*_~[!h\n]+/.exec(text); // nothing begins with these
  return [null, run ? run[0].length : 1, run ? run[0] : text[0]];
}

// Of an image only its name is shown: nothing is loaded from elsewhere.
function readLink(text, depth) {
  const m = LINK.exec(text);
  const bare = !m && BARE.exec(text);
  const href = m ? safeAddress(m[2]) : bare && safeAddress(bare[0]);
  if (!href) return null;
  const shown = m ? m[1] || m[2] : bare[0];
  return [{ kind: "link", href, inline: m && depth < MAX_DEPTH ? parseInline(shown, depth + 1) : [{ kind: "text", text: shown }] },
    (m ? m[0] : bare[0]).length];
}

// ---- nodes

// The nodes for a text, in a fragment of this document.
export function render(text, document, onCopy) {
  const root = document.createDocumentFragment();
  for (const block of parse(text)) root.append(blockNode(block, document, onCopy));
  return root;
}

function element(document, name, children) {
  const e = document.createElement(name);
  e.append(...children);
  return e;
}

function inlineNodes(list, document) {
  return list.map((n) => inlineNode(n, document));
}

function inlineNode(n, document) {
  if (n.kind === "text") return document.createTextNode(n.text);
  if (n.kind === "break") return document.createElement("br");
  if (n.kind === "code") return element(document, "code", [document.createTextNode(n.text)]);
  if (n.kind !== "link") return element(document, n.kind, inlineNodes(n.inline, document));
  const a = element(document, "a", inlineNodes(n.inline, document));
  a.href = n.href;
  a.rel = "noopener noreferrer";
  a.target = "_blank";
  return a;
}

const BLOCKS = {
  paragraph: (b, d) => element(d, "p", inlineNodes(b.inline, d)),
  heading: (b, d) => element(d, `h${Math.min(6, b.level + 2)}`, inlineNodes(b.inline, d)),
  rule: (b, d) => d.createElement("hr"),
  quote: (b, d, onCopy) => element(d, "blockquote", b.blocks.map((x) => blockNode(x, d, onCopy))),
  list: listNode,
  table: tableNode,
  code: codeNode,
};

function blockNode(block, document, onCopy) {
  return BLOCKS[block.kind](block, document, onCopy);
}

// An item that is one paragraph is written without one.
function listNode(b, d, onCopy) {
  const items = b.items.map((blocks) => {
    const tight = blocks[0]?.kind === "paragraph";
    const rest = (tight ? blocks.slice(1) : blocks).map((x) => blockNode(x, d, onCopy));
    return element(d, "li", [...(tight ? inlineNodes(blocks[0].inline, d) : []), ...rest]);
  });
  const list = element(d, b.ordered ? "ol" : "ul", items);
  if (b.ordered && b.start !== 1) list.start = b.start;
  return list;
}

function tableNode(b, d) {
  const row = (cells, name) => element(d, "tr", cells.map((c) => element(d, name, inlineNodes(c, d))));
  return element(d, "table", [element(d, "thead", [row(b.head, "th")]),
    element(d, "tbody", b.rows.map((r) => row(r, "td")))]);
}

function codeNode(b, d, onCopy) {
  const box = element(d, "div", []);
  box.className = "code";
  const head = element(d, "div", [element(d, "span", [d.createTextNode(b.language || "text")])]);
  head.className = "head";
  if (onCopy) {
    const copy = element(d, "button", [d.createTextNode("Copy")]);
    copy.type = "button";
    copy.addEventListener("click", () => onCopy(b.text, copy));
    head.append(copy);
  }
  const pre = element(d, "pre", [element(d, "code", [d.createTextNode(b.text)])]);
  pre.tabIndex = 0;
  box.append(head, pre);
  return box;
}
