/** A GPU that is here and not used is told, with the loader's reason. */
import { listBackends } from "@lockgate/native";
import test from "ava";
import { unusedGpuReason } from "../../gpu-agent/src/models/devices.ts";

test("with a driver and no CUDA backend the reason is the backend's own; without a driver there is nothing to tell", (t) => {
  const cuda = listBackends().find(({ name }) => name === "cuda");
  t.is(unusedGpuReason(false), undefined);
  t.is(unusedGpuReason(true), cuda?.loaded ? undefined : (cuda?.reason ?? undefined));
});
