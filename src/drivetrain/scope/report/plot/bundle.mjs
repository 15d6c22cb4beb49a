// Makes plot.js, the part of Observable Plot that draw.js uses, and LICENSES.txt, of all packages in it.
//
//   npm ci && npm run bundle && rm -r node_modules
//
// The same versions (package-lock.json) give the same bytes; it prints their SHA-256, which a test knows.
import {createHash} from "node:crypto";
import {readFileSync, readdirSync, writeFileSync} from "node:fs";
import {build} from "esbuild";

const USED = ["plot", "barX", "ruleX", "ruleY", "tickX", "text", "axisX"];

const {outputFiles, metafile} = await build({
  stdin: {contents: `export {${USED.join(", ")}} from "@observablehq/plot";`, resolveDir: "."},
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plot",
  target: "es2020",
  legalComments: "none",
  lineLimit: 4000,
  metafile: true,
  write: false,
  outfile: "plot.js",
});

// What is in it, by package: a file counts when some of its bytes are left.
const [{inputs}] = Object.values(metafile.outputs);
const names = new Set(
  Object.entries(inputs)
    .filter(([path, {bytesInOutput}]) => bytesInOutput > 0 && path.startsWith("node_modules/"))
    .map(([path]) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)[1]),
);
const licences = [...names].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const {version, license} = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
  if (!file) throw new Error(`${name}: no licence text`);
  const text = readFileSync(`${folder}/${file}`, "utf8").replace(/[ \t]+$/gm, "").trim();
  return {title: `${name} ${version} (${license})`, text};
});

const plot = licences.find(({title}) => title.startsWith("@observablehq/plot")).title;
const script = `/* ${plot} and what it needs; licences in LICENSES.txt, made by bundle.mjs */\n${outputFiles[0].text}`;
writeFileSync("plot.js", script);
writeFileSync(
  "LICENSES.txt",
  `plot.js, which the pages of reports embed, holds parts of these packages.\n\n` +
    licences.map(({title, text}) => `${"=".repeat(80)}\n${title}\n${"=".repeat(80)}\n\n${text}\n`).join("\n"),
);
console.log(`plot.js: ${script.length} bytes, SHA-256 ${createHash("sha256").update(script).digest("hex")}`);
