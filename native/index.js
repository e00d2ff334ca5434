/** The module's face; index.d.ts is its contract. */
import { detached } from "./lib/callbacks.js";
import { functionOf } from "./lib/checks.js";
import { addon } from "./lib/load-addon.js";
import { invalidArgument } from "./lib/native-error.js";

export { loadModel } from "./lib/model.js";

export const llamaVersion = addon.llamaVersion;

export function listDevices() {
  return addon.listDevices();
}

export function listBackends() {
  return addon.listBackends();
}

let logHandler = null;

export function setLogHandler(handler) {
  logHandler = handler === null ? null : functionOf("handler", handler);
  // Lines that wait in the addon's queue still come after the handler was taken back; they are nobody's then.
  const deliver = (level, text) => {
    if (logHandler === handler) {
      handler(level, text);
    }
  };
  addon.setLogHandler(handler === null ? null : detached(deliver));
}

export function setCpuAffinity(cores) {
  if (!Array.isArray(cores) || !cores.every((core) => Number.isInteger(core) && core >= 0)) {
    throw invalidArgument("cores", "an array of core numbers");
  }
  addon.setCpuAffinity({ cores: Int32Array.from(cores) });
}
