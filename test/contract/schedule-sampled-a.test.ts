/** Sampled schedules of scheme A; with those of B and C, 100,000 in a run. */
import test from "ava";
import { declareSampledTests } from "../helpers/schedule/sampled-tests.ts";

declareSampledTests(test, "A", 50_000);
