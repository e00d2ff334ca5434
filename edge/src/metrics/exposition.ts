/**
 * Prometheus' text format, version 0.0.4. Pure. A renderer of our own: the usual library needs Node's modules, and this is all of it that is
 * used.
 */

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly value: number;
}

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeValue = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

const formatLabels = (labels: Sample["labels"]): string =>
  labels.length === 0 ? "" : `{${labels.map(([name, value]) => `${name}="${escapeValue(value)}"`).join(",")}}`;

/** The text of all families, in their order. A family without samples is still described. */
export const exposition = (families: readonly Family[]): string =>
  families
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(({ labels, value }) => `${name}${formatLabels(labels)} ${value}\n`);
      return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
    })
    .join("");
