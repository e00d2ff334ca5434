/** What the native module knows of a model file and of this machine, without loading weights. */
import { type Backend, type Device, listBackends, listDevices, loadModel, type ModelInfo } from "@lockgate/native";
import { createChatTemplate } from "../prompt/chat-template.ts";

export interface InspectedModel {
  readonly info: ModelInfo;
  /** What came of trying the chat template. */
  readonly template: {
    /** False: the file has none and ChatML is used. */
    readonly present: boolean;
    readonly renders: boolean;
    /** Why it does not render, or null. */
    readonly problem: string | null;
  };
}

const tryTemplate = (info: ModelInfo): InspectedModel["template"] => {
  const present = info.chatTemplate !== null;
  const made = createChatTemplate(info);
  if (!made.ok) return { present, renders: false, problem: made.message };
  const rendered = made.template.renderPrompt([{ role: "user", content: "Hello" }]);
  return { present, renders: rendered.ok, problem: rendered.ok ? null : rendered.message };
};

/** Vocabulary and metadata of a GGUF. Rejects with the native module's coded errors. */
export const inspectModel = async (path: string): Promise<InspectedModel> => {
  const model = await loadModel({ path, vocabOnly: true });
  const { info } = model;
  await model.close();
  return { info, template: tryTemplate(info) };
};

export interface Machine {
  readonly devices: readonly Device[];
  readonly backends: readonly Backend[];
}

/** Devices and backends; a CPU's free bytes are what this process may still take (its cgroup's limit counts), which the backend does not know. */
export const inspectMachine = (): Machine => ({
  devices: listDevices().map((device) =>
    device.kind === "cpu" ? { ...device, memoryFreeBytes: process.availableMemory() } : device,
  ),
  backends: listBackends(),
});
