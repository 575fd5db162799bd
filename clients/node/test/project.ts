/** An empty project that has the package as npm installs it, for the programs that pages show. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { SPEC } from "./spec.js";

export const ROOT = join(SPEC, "..");
const CLIENT = join(ROOT, "clients", "node");
const TSC = join(CLIENT, "node_modules", "typescript", "bin", "tsc");

/** A page of the documentation. */
export function page(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

/** The code blocks of a language. */
export function blocks(text: string, language: string): string[] {
  const found = text.matchAll(new RegExp(`\n\`\`\`${language}\n(.*?)\`\`\``, "gs"));
  return Array.from(found, ([, block = ""]) => block);
}

/** The programs that a page names: "... `name.mjs` ...:" before a block. */
export function files(text: string): Map<string, string> {
  const found = text.matchAll(/`(\w+(?:\.test)?\.mjs)`[^\n]*:\n\n```js\n(.*?)```/gs);
  return new Map(Array.from(found, ([, name = "", block = ""]) => [name, block]));
}

/**
 * A directory below build/, so that what a page has installed is found in the client's own
 * node_modules; the package itself is compiled anew into one of its own.
 */
export class Project {
  readonly directory: string;

  constructor() {
    mkdirSync(join(CLIENT, "build"), { recursive: true });
    this.directory = mkdtempSync(join(CLIENT, "build", "project-"));
    const installed = join(this.directory, "node_modules", "pillion");
    mkdirSync(installed, { recursive: true });
    cpSync(join(CLIENT, "package.json"), join(installed, "package.json"));
    this.#run([
      TSC,
      "-p",
      join(CLIENT, "tsconfig.build.json"),
      "--outDir",
      join(installed, "dist"),
    ]);
  }

  /** Write a file, and say where it is. */
  write(name: string, text: string): string {
    const path = join(this.directory, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Import a file of the project. */
  async import<T>(name: string): Promise<T> {
    return (await import(pathToFileURL(join(this.directory, name)).href)) as T;
  }

  /** Import a part of the package, the one that the project's own programs have. */
  package<T>(name: string): Promise<T> {
    return this.import<T>(join("node_modules", "pillion", "dist", name));
  }

  /** Run the compiler. */
  compile(...options: readonly string[]): void {
    this.#run([TSC, ...options]);
  }

  /** Run `node --test` and say what it has said. */
  test(...names: readonly string[]): string {
    return this.#run(["--test", "--test-reporter=tap", ...names]);
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  #run(args: readonly string[]): string {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env; // this is no part of our own test run
    const ran = spawnSync(process.execPath, args, { cwd: this.directory, encoding: "utf8", env });
    assert.equal(ran.status, 0, ran.stdout + ran.stderr);
    return ran.stdout;
  }
}
