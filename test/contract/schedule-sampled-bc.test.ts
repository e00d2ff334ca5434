/** Sampled schedules of schemes B and C; with those of A, 100,000 in a run. */
import test from "ava";
import { declareSampledTests } from "../helpers/schedule/sampled-tests.ts";

declareSampledTests(test, "B", 25_000);
declareSampledTests(test, "C", 25_000);
