// markdown.test.mjs - what models write becomes the right nodes, and nothing of it becomes HTML.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, parseInline, render, safeAddress } from "../../../web/markdown.js";

// A document that only makes elements and texts: there is nothing else to call.
class FakeNode {
  constructor(name) {
    this.name = name;
    this.children = [];
  }

  append(...children) {
    this.children.push(...children);
  }

  addEventListener() {}

  get html() {
    if (this.name === "#text") return this.text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
    const inner = this.children.map((c) => c.html).join("");
    if (this.name === "#root") return inner;
    return `<${this.name}${this.href ? ` href=${this.href}` : ""}>${inner}</${this.name}>`;
  }
}

const fake = {
  createElement: (name) => new FakeNode(name),
  createTextNode: (text) => Object.assign(new FakeNode("#text"), { text }),
  createDocumentFragment: () => new FakeNode("#root"),
};

const html = (text) => render(text, fake).html;

for (const [text, want] of [
  ["plain", "<p>plain</p>"],
  ["one\ntwo\n\nthree", "<p>one<br></br>two</p><p>three</p>"],
  ["**bold** and *thin* and ~~gone~~", "<p><strong>bold</strong> and <em>thin</em> and <del>gone</del></p>"],
  ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
  ["`a < b`", "<p><code>a &lt; b</code></p>"],
  ["``a ` b``", "<p><code>a ` b</code></p>"],
  ["# Title #", "<h3>Title</h3>"],
  ["- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"],
  ["3. a\n4. b", "<ol><li>a</li><li>b</li></ol>"],
  ["> said\n> twice", "<blockquote><p>said<br></br>twice</p></blockquote>"],
  ["a\n\n---\n\nb", "<p>a</p><hr></hr><p>b</p>"],
  ["| a | b |\n|---|---|\n| 1 | 2 |",
    "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"],
  ["[x](https://a.b/c)", "<p><a href=https://a.b/c>x</a></p>"],
  ["see https://a.b/c.", "<p>see <a href=https://a.b/c>https://a.b/c</a>.</p>"],
  ["\\*not\\*", "<p>*not*</p>"],
  ["**open", "<p>**open</p>"],
]) {
  test(`${JSON.stringify(text)}`, () => assert.equal(html(text), want));
}

test("code keeps its text, and an open fence lasts to the end", () => {
  assert.deepEqual(parse("```c\nint *a = <b>;\n\n# no title\n```\nafter")[0],
    { kind: "code", language: "c", text: "int *a = <b>;\n\n# no title" });
  assert.deepEqual(parse("```\nstill writ")[0], { kind: "code", language: "", text: "still writ" });
});

test("HTML is text", () => {
  for (const text of ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "a<b>c</b>"])
    assert.deepEqual(parseInline(text), [{ kind: "text", text }]);
});

test("only addresses that open a page are links", () => {
  assert.equal(safeAddress("javascript:alert(1)"), null);
  assert.equal(safeAddress(" JaVaScRiPt:alert(1)"), null);
  assert.equal(safeAddress("data:text/html,x"), null);
  assert.equal(safeAddress("/relative"), null);
  assert.equal(safeAddress("mailto:a@b.c"), "mailto:a@b.c");
  assert.equal(html("[x](javascript:alert(1))").includes("<a"), false);
  assert.equal(html("![x](https://a.b/c.png)"), "<p><a href=https://a.b/c.png>x</a></p>"); // nothing is loaded
});

// Whatever it is given it ends, in nodes of a few kinds, with the letters of the text.
test("random text", () => {
  const pieces = ["*", "**", "_", "`", "```\n", "~~", "[a](b)", "[", "](", "<b>", "\n", "\n\n", "- ", "1. ", "> ", "# ", "|", "|-|-|\n",
    "word ", "https://x.y", "\\", "  ", "!["];
  const kinds = new Set(["#root", "#text", "p", "h3", "h4", "h5", "h6", "hr", "blockquote", "ul", "ol", "li", "table", "thead",
    "tbody", "tr", "th", "td", "div", "span", "pre", "code", "strong", "em", "del", "a", "br"]);
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  const check = (node) => {
    assert.ok(kinds.has(node.name), node.name);
    node.children.forEach(check);
  };
  for (let i = 0; i < 3000; i++) {
    let text = "";
    for (let k = random(30); k >= 0; k--) text += pieces[random(pieces.length)];
    check(render(text, fake));
  }
});

test("long runs of marks take no time", () => {
  for (const text of ["*".repeat(5000), "[".repeat(5000), "> ".repeat(5000), "`".repeat(5000), "_a".repeat(5000), "- ".repeat(3000)])
    parse(text);
});
