/**
 * Places in the spool: the names of its segments, and a position in one. Pure.
 *
 * A segment is written by one process from its first byte to its last; nobody ever appends to one that an earlier process left, so what a
 * crash did to its end concerns no later record.
 */
import * as z from "zod";

const SEGMENT_DIGITS = 12;
const segmentPattern = new RegExp(`^(\\d{${SEGMENT_DIGITS}})\\.usage$`);

/** `offset` bytes into segment number `segment`. */
export interface SpoolPosition {
  readonly segment: number;
  readonly offset: number;
}

/** Before everything: segments count from 1. */
export const SPOOL_START: SpoolPosition = { segment: 0, offset: 0 };

export const segmentName = (segment: number): string => `${String(segment).padStart(SEGMENT_DIGITS, "0")}.usage`;

/** The numbers of the segments among these names, in order. */
export const segmentsAmong = (names: readonly string[]): number[] =>
  names
    .flatMap((name) => segmentPattern.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);

const positionSchema = z.strictObject({
  segment: z.number().int().nonnegative(),
  offset: z.number().int().nonnegative(),
});

/** Reads a position's JSON; undefined for anything else. */
export const parsePosition = (text: string): SpoolPosition | undefined => {
  try {
    return positionSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
};
