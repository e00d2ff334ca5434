/** Token ids of the built-in model as text, for tests that read a wire log. */
import { fileURLToPath } from "node:url";
import { loadModel } from "@lockgate/native";
import { createDetokenizer, createPieceTexts } from "../../gpu-agent/src/prompt/detokenizer.ts";

const modelPath = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));

/** Loads the vocabulary and gives what turns ids into text; control tokens have none. */
export const loadModelText = async (): Promise<(ids: readonly number[]) => string> => {
  const model = await loadModel({ path: modelPath, vocabOnly: true });
  const pieceTexts = createPieceTexts(model.pieces());
  await model.close();
  return (ids) => {
    const detokenizer = createDetokenizer(pieceTexts);
    return ids.map((id) => detokenizer.push(id)).join("") + detokenizer.flush();
  };
};
