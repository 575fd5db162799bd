/** What a person may want to know of the events: for the log, and for the channels. */

import type { Event } from "../events.js";
import type { Task } from "../tasks.js";
import { channels, type Logger, type TaskNews } from "./logging.js";

/** Tell of an event. */
export function news(event: Event, logger: Logger): void {
  switch (event.type) {
    case "assigned":
      say(logger, event.task, "assigned", `is assigned (${event.task.role})`);
      break;
    case "restored":
      say(logger, event.task, "restored", `is whole${begin(event.task)}`);
      break;
    case "promoted":
      say(logger, event.task, "promoted", `is promoted${begin(event.task)}`);
      break;
    case "demoted":
      say(logger, event.task, "demoted", "is demoted");
      break;
    case "revoking":
      say(logger, event.task, "revoked", "is revoked");
      break;
    case "lost":
      say(logger, event.task, "lost", `ends here: ${event.message || event.code}`);
      break;
    case "restoring":
      if (channels.restore.hasSubscribers) {
        const { task, table, records, remaining } = event;
        channels.restore.publish({ task: task.name, table, records, remaining });
      }
      break;
    case "restore":
    case "records":
    case "reset":
    case "waiting":
      break;
  }
}

function say(logger: Logger, task: Task, what: TaskNews["what"], text: string): void {
  const { name, epoch, role } = task;
  logger.info({ task: name, epoch }, `task ${name} ${text}`);
  if (channels.task.hasSubscribers) {
    channels.task.publish({ task: name, epoch, role, what });
  }
}

function begin({ sources }: Task): string {
  const at = Array.from(sources, ([topic, { position }]) => `${topic} ${position}`);
  return at.length === 0 ? "" : `, and begins at ${at.join(", ")}`;
}
