/** What tests failed, and how many there were: most are vectors, and a line for each hides all else. */

import type { TestEvent } from "node:test/reporters";

// biome-ignore lint/style/noDefaultExport: it is what node takes for a reporter
export { report as default };

async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type === "test:fail") {
      const { error } = data.details;
      const cause: unknown = error.cause ?? error;
      const why = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
      yield `not ok: ${data.name} (${data.file ?? "?"})\n${why}\n\n`;
    } else if (type === "test:diagnostic") {
      yield `# ${data.message}\n`;
    } else if (type === "test:stdout" || type === "test:stderr") {
      yield data.message;
    }
  }
}
