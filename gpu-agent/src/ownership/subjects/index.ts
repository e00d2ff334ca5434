/** Everything that the contracts are run against, by name. `make` gives a fresh one, for the faulty subjects share state. */
import { type OpenTurn, openOwnedTurn } from "../../replicas/owned-turn.ts";
import { openScopedTurn } from "../scheme-b.ts";
import { createOwners } from "../scheme-c.ts";
import { createCloseOnly, createOriginal } from "./faulty-turn.ts";

export const subjectNames = ["original", "close-only", "A", "B", "C"] as const;

export type SubjectName = (typeof subjectNames)[number];

export const subjects: Readonly<Record<SubjectName, () => OpenTurn>> = {
  original: createOriginal,
  "close-only": createCloseOnly,
  A: () => openOwnedTurn,
  B: () => openScopedTurn,
  C: createOwners,
};
