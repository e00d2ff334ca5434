/** The limits of a schedule's replicas: those of serving, with a queue so short that schedules reach its end. */
import { defaultReplicaLimits, type ReplicaLimits } from "../../../gpu-agent/src/replicas/limits.ts";

export const limits: ReplicaLimits = { ...defaultReplicaLimits, maxWaiting: 2 };
